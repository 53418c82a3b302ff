// SPDX-License-Identifier: GPL-2.0

//! What the datagrams of all classes have: their bytes, and the common header.

/// Implements this for a structure of 256 bytes whose first field is the `header`.
macro_rules! datagram {
    ($name:ident) => {
        impl $name {
            /// The datagram in `bytes`.
            #[inline]
            pub fn from_bytes(bytes: &[u8; $crate::mad::MAD_LEN]) -> &Self {
                zerocopy::transmute_ref!(bytes)
            }

            /// The datagram in `bytes`, to change it there.
            #[inline]
            pub fn from_bytes_mut(bytes: &mut [u8; $crate::mad::MAD_LEN]) -> &mut Self {
                zerocopy::transmute_mut!(bytes)
            }

            /// The bytes of the datagram.
            #[inline]
            pub fn as_bytes(&self) -> &[u8; $crate::mad::MAD_LEN] {
                zerocopy::transmute_ref!(self)
            }

            /// The common header.
            #[inline]
            pub const fn header(&self) -> $crate::mad::MadHeader {
                $crate::mad::MadHeader::from_raw(&self.header)
            }

            /// Sets the common header.
            #[inline]
            pub fn set_header(&mut self, header: &$crate::mad::MadHeader) {
                self.header = header.to_raw();
            }
        }
    };
}
pub(super) use datagram;
