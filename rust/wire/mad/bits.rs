// SPDX-License-Identifier: GPL-2.0

//! Fields of attributes, by bit offset and width as the IBA's tables have them.

use crate::types::{
    Gid,
    Guid,
    Lid,
    PKey,
    PortNum,
    Psn,
    QKey,
    Qpn,
    Sl, //
};

/// A value that lies in the bits of a structure. `Layout` tells the ways apart in which one type may lie there.
pub(super) trait Field<Layout = ()> {
    /// The value of the `WIDTH` bits from the `OFFSET`th on. Bits beyond the end of `data` read as zero.
    fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self;
    /// Writes the value there and leaves its neighbours alone; the bits of it that do not fit `WIDTH` are
    /// dropped. Nothing happens if the field ends beyond `data`.
    fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]);
}

macro_rules! integer_fields {
    ($($int:ty),*) => {
        $(impl Field for $int {
            #[inline]
            fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
                get::<OFFSET, WIDTH>(data) as $int
            }
            #[inline]
            fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
                set::<OFFSET, WIDTH>(data, self.into());
            }
        })*
    };
}

macro_rules! newtype_fields {
    ($($newtype:ty => $int:ty),* $(,)?) => {
        $(impl Field for $newtype {
            #[inline]
            fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
                Self::new(get::<OFFSET, WIDTH>(data) as $int)
            }
            #[inline]
            fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
                set::<OFFSET, WIDTH>(data, self.get().into());
            }
        })*
    };
}

integer_fields!(u8, u16, u32, u64);
newtype_fields! {
    Guid => u64,
    Lid => u16,
    PKey => u16,
    PortNum => u8,
    Psn => u32,
    QKey => u32,
    Qpn => u32,
    Sl => u8,
}

impl Field for bool {
    #[inline]
    fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
        get::<OFFSET, WIDTH>(data) != 0
    }
    #[inline]
    fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
        set::<OFFSET, WIDTH>(data, self.into());
    }
}

impl Field for Gid {
    #[inline]
    fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
        Self::new(get::<OFFSET, WIDTH>(data).to_be_bytes())
    }
    #[inline]
    fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
        set::<OFFSET, WIDTH>(data, u128::from_be_bytes(self.get()));
    }
}

impl<const LEN: usize> Field for [u8; LEN] {
    #[inline]
    fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
        const { assert!(is_bytes(OFFSET, WIDTH, LEN)) };
        let bytes = data.get(OFFSET / 8..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; LEN])
    }
    #[inline]
    fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
        const { assert!(is_bytes(OFFSET, WIDTH, LEN)) };
        let place = data.get_mut(OFFSET / 8..).and_then(<[u8]>::first_chunk_mut);
        if let Some(place) = place {
            *place = self;
        }
    }
}

/// Where a field of `WIDTH` bits lies whose most significant bit is the `OFFSET`th of its
/// structure.
struct Place<const OFFSET: usize, const WIDTH: usize>;

impl<const OFFSET: usize, const WIDTH: usize> Place<OFFSET, WIDTH> {
    const FIRST: usize = OFFSET / 8;
    const END: usize = (OFFSET + WIDTH).div_ceil(8);
    const SHIFT: usize = {
        // All its bytes fit the 128 bits that fields are moved in.
        assert!(WIDTH > 0 && Self::END - Self::FIRST <= 16);
        Self::END * 8 - OFFSET - WIDTH
    };
    const MASK: u128 = u128::MAX >> (128 - WIDTH);
}

/// Reads a field. Bits beyond the end of `data` read as zero.
#[inline]
fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> u128 {
    let place = data.get(const { Place::<OFFSET, WIDTH>::FIRST..Place::<OFFSET, WIDTH>::END });
    let bytes = place.unwrap_or(&[]).iter();
    let word = bytes.fold(0, |word: u128, &byte| word << 8 | u128::from(byte));
    word >> const { Place::<OFFSET, WIDTH>::SHIFT } & const { Place::<OFFSET, WIDTH>::MASK }
}

/// Writes a field and leaves its neighbours alone. Nothing happens if it ends beyond `data`.
#[inline]
fn set<const OFFSET: usize, const WIDTH: usize>(data: &mut [u8], bits: u128) {
    let mut mask = const { Place::<OFFSET, WIDTH>::MASK << Place::<OFFSET, WIDTH>::SHIFT };
    let mut word = bits << const { Place::<OFFSET, WIDTH>::SHIFT } & mask;
    let place = data.get_mut(const { Place::<OFFSET, WIDTH>::FIRST..Place::<OFFSET, WIDTH>::END });
    for byte in place.unwrap_or(&mut []).iter_mut().rev() {
        *byte = *byte & !(mask as u8) | word as u8;
        mask >>= 8;
        word >>= 8;
    }
}

/// Whether a field ends within a structure of `len` bytes.
#[inline]
pub(super) const fn fits(offset: usize, width: usize, len: usize) -> bool {
    offset + width <= len * 8
}

/// Whether a field is `len` whole bytes.
#[inline]
pub(super) const fn is_bytes(offset: usize, width: usize, len: usize) -> bool {
    offset % 8 == 0 && width == len * 8
}

/// Declares a plain structure from a table of its fields: name, type, bit offset, width.
///
/// It gets `read` and `write` over a slice of at least `LEN` bytes; whoever calls them knows the
/// size. `write` clears what lies between the fields. Its default is all zeros. The type of a field that has
/// several layouts is followed by `as` and the one that it has here.
macro_rules! attribute {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident [$len:literal] {
            $($(#[$fmeta:meta])*
            $field:ident: $ty:ty $(as $layout:ty)? = $offset:literal, $width:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$fmeta])* $vis $field: $ty,)*
        }

        impl $name {
            /// Size in bytes.
            #[allow(dead_code, reason = "not every structure has its size asked for")]
            $vis const LEN: usize = $len;

            #[allow(dead_code, reason = "not every structure is read in every place")]
            pub(in $crate::mad) fn read(data: &[u8]) -> Self {
                const { $(assert!($crate::mad::bits::fits($offset, $width, $len));)* }
                Self {
                    $($field: <$ty as $crate::mad::bits::Field$(<$layout>)?>::get::<$offset, $width>(data),)*
                }
            }

            #[allow(dead_code, reason = "not every structure is written in every place")]
            pub(in $crate::mad) fn write(&self, data: &mut [u8]) {
                for byte in data.iter_mut().take($len) {
                    *byte = 0;
                }
                $(<$ty as $crate::mad::bits::Field$(<$layout>)?>::set::<$offset, $width>(self.$field, data);)*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::read(&[])
            }
        }
    };
}

/// Declares how a plain structure lies within others: a table of its fields as `attribute!` has them, with
/// their types left out. The layout gets a name, which [`Field`] knows it by.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $layout:ident of $name:ident [$len:literal] {
            $($field:ident = $offset:literal, $width:literal;)*
        }
    ) => {
        $(#[$meta])*
        pub(in $crate::mad) struct $layout;

        impl $crate::mad::bits::Field<$layout> for $name {
            fn get<const OFFSET: usize, const WIDTH: usize>(data: &[u8]) -> Self {
                const {
                    assert!($crate::mad::bits::is_bytes(OFFSET, WIDTH, $len));
                    $(assert!($crate::mad::bits::fits($offset, $width, $len));)*
                }
                let data = data.get(OFFSET / 8..).unwrap_or(&[]);
                Self {
                    $($field: $crate::mad::bits::Field::get::<$offset, $width>(data),)*
                }
            }

            fn set<const OFFSET: usize, const WIDTH: usize>(self, data: &mut [u8]) {
                const { assert!($crate::mad::bits::is_bytes(OFFSET, WIDTH, $len)) };
                let data = data.get_mut(OFFSET / 8..).unwrap_or(&mut []);
                $($crate::mad::bits::Field::set::<$offset, $width>(self.$field, data);)*
            }
        }
    };
}

pub(super) use attribute;
pub(super) use layout;

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_bits))]
mod tests {
    use super::*;

    #[test]
    fn fields_across_bytes() {
        let data = [0x12, 0x34, 0x56, 0x78];
        assert_eq!(get::<0, 4>(&data), 1);
        assert_eq!(get::<4, 8>(&data), 0x23);
        assert_eq!(get::<12, 1>(&data), 0);
        assert_eq!(get::<13, 1>(&data), 1);
        assert_eq!(get::<0, 32>(&data), 0x1234_5678);
        assert_eq!(get::<24, 16>(&data), 0);
    }

    #[test]
    fn set_leaves_neighbours() {
        let mut data = [0xff; 4];
        set::<4, 8>(&mut data, 0);
        assert_eq!(data, [0xf0, 0x0f, 0xff, 0xff]);
        set::<4, 8>(&mut data, 0xfff);
        assert_eq!(data, [0xff; 4]);
        set::<24, 16>(&mut data, 0);
        assert_eq!(data, [0xff; 4]);
    }

    #[test]
    fn widest_field() {
        let mut data = [0; 16];
        set::<0, 128>(&mut data, u128::MAX - 1);
        assert_eq!(get::<0, 128>(&data), u128::MAX - 1);
        assert_eq!(get::<64, 64>(&data), u128::from(u64::MAX - 1));
    }

    #[test]
    fn arrays_of_bytes() {
        let mut data = [1, 2, 3, 4];
        assert_eq!(<[u8; 2] as Field>::get::<8, 16>(&data), [2, 3]);
        assert_eq!(<[u8; 2] as Field>::get::<24, 16>(&data), [0, 0]);
        Field::set::<16, 16>([8, 9], &mut data);
        Field::set::<24, 16>([7, 7], &mut data);
        assert_eq!(data, [1, 2, 8, 9]);
    }
}
