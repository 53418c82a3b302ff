// SPDX-License-Identifier: GPL-2.0

//! Sets of flags.

/// Declares a set of flags, with its named members.
///
/// The set is a plain integer in the numbering of the C header, so converting it costs nothing. Bits
/// without a name are kept: refusing them is up to who receives the set, see `unknown()`.
macro_rules! flag_set {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident($int:ty) {
            $($(#[$flag_doc:meta])* $flag:ident = $value:expr),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name($int);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self($value as $int);)+

            /// The empty set.
            pub const NONE: Self = Self(0);

            /// All members that have a name.
            pub const ALL: Self = Self(0 $(| $value as $int)+);

            /// The set with these bits.
            #[inline]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The bits, as in the C header.
            #[inline]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether all members of `other` are in the set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether some member of `other` is in the set.
            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits that have no name.
            #[inline]
            pub const fn unknown(self) -> $int {
                self.0 & !Self::ALL.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}
pub(super) use flag_set;

/// Declares an enum whose numbers are those of a C enum, with the conversion from the C number.
macro_rules! c_enum {
    (
        $(#[$doc:meta])*
        $vis:vis enum $name:ident($int:ty) {
            $($(#[$variant_doc:meta])* $variant:ident = $value:expr),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        $vis enum $name {
            $($(#[$variant_doc])* $variant = $value as u32,)+
        }

        impl $name {
            /// The variant with this number, if there is one.
            pub const fn from_raw(raw: $int) -> Option<Self> {
                $(if raw as u32 == Self::$variant as u32 {
                    return Some(Self::$variant);
                })+
                None
            }

            /// The number in the C header.
            #[inline]
            pub const fn raw(self) -> $int {
                self as $int
            }
        }
    };
}
pub(super) use c_enum;
