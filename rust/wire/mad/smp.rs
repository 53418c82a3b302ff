// SPDX-License-Identifier: GPL-2.0

//! Subnet management packets (IBA chapter "Subnet Management", "SMP Data Formats").
//!
//! LID-routed and directed-route packets share one layout: the former leave the route fields zero.

mod guid_info;
mod led_info;
mod node;
mod pkey_table;
mod port_info;
mod sm_info;
mod switch;
pub mod trap;
mod vl;

pub use guid_info::GuidInfo;
pub use led_info::LedInfo;
pub use node::{
    NodeDescription,
    NodeInfo,
    NodeType, //
};
pub use pkey_table::PKeyTable;
pub use port_info::{
    cap,
    cap2,
    speed,
    speed_ext,
    width,
    PhysState,
    PortInfo,
    PortState, //
};
pub use sm_info::{
    SmInfo,
    SmState, //
};
pub use switch::{
    LinearForwardingTable,
    MulticastForwardingTable,
    SwitchInfo, //
};
pub use vl::{
    SlToVl,
    VlArb,
    VlWeight, //
};

use super::datagram::datagram;
use super::{
    class,
    status,
    MadHeader,
    Notice,
    RawHeader, //
};
use crate::types::{
    Lid,
    PortNum, //
};
use zerocopy::byteorder::big_endian::{
    U16,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes of the attribute in a packet.
pub const DATA_LEN: usize = 64;

/// Entries of a path; the first is not used, so that a path has at most 63 hops.
pub const PATH_LEN: usize = 64;

/// The largest valid hop count.
pub const MAX_HOPS: u8 = 63;

/// Attributes of the subnet management classes.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod attr {
    pub const NODE_DESCRIPTION: u16 = 0x0010;
    pub const NODE_INFO: u16 = 0x0011;
    pub const SWITCH_INFO: u16 = 0x0012;
    pub const GUID_INFO: u16 = 0x0014;
    pub const PORT_INFO: u16 = 0x0015;
    pub const PKEY_TABLE: u16 = 0x0016;
    pub const SL_TO_VL: u16 = 0x0017;
    pub const VL_ARB: u16 = 0x0018;
    pub const LINEAR_FORWARDING_TABLE: u16 = 0x0019;
    pub const RANDOM_FORWARDING_TABLE: u16 = 0x001a;
    pub const MULTICAST_FORWARDING_TABLE: u16 = 0x001b;
    pub const SM_INFO: u16 = 0x0020;
    pub const VENDOR_DIAG: u16 = 0x0030;
    pub const LED_INFO: u16 = 0x0031;
}

/// What the data of a subnet management packet may be.
pub trait Attribute: Sized {
    /// The attribute ID.
    const ID: u16;
    /// Reads the attribute. Every input has a meaning; whether its values are valid is the caller's
    /// concern.
    fn parse(data: &[u8; DATA_LEN]) -> Self;
    /// Writes all of the attribute; reserved bits become zero.
    fn emit(&self, data: &mut [u8; DATA_LEN]);
}

/// Implements [`Attribute`] for structures that `attribute!` made.
macro_rules! smp_attribute {
    ($name:ty = $id:expr) => {
        impl $crate::mad::smp::Attribute for $name {
            const ID: u16 = $id;

            fn parse(data: &[u8; $crate::mad::smp::DATA_LEN]) -> Self {
                Self::read(data)
            }

            fn emit(&self, data: &mut [u8; $crate::mad::smp::DATA_LEN]) {
                *data = [0; $crate::mad::smp::DATA_LEN];
                self.write(data);
            }
        }
    };
}
use smp_attribute;

impl Attribute for Notice {
    const ID: u16 = super::attr::NOTICE;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        Self::parse(data)
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        Self::emit(self, data);
    }
}

/// A subnet management packet: the 256 bytes, seen as what they mean.
///
/// # Examples
///
/// ```
/// use wire::mad::smp::{attr, NodeInfo, NodeType, Smp};
/// use wire::mad::{class, method, MadHeader};
///
/// let mut smp = Smp::new(&MadHeader {
///     mgmt_class: class::SUBN_DR,
///     method: method::GET,
///     attr_id: attr::NODE_INFO,
///     ..MadHeader::default()
/// });
/// // The agent answers in place.
/// let mut info = NodeInfo::default();
/// info.node_type = NodeType::Ca as u8;
/// smp.set_attribute(&info);
/// smp.set_method(method::GET_RESP);
/// smp.set_returning(true);
/// assert_eq!(smp.attribute::<NodeInfo>(), info);
/// ```
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Smp {
    header: RawHeader,
    mkey: U64,
    dr_slid: U16,
    dr_dlid: U16,
    reserved: [u8; 28],
    data: [u8; DATA_LEN],
    initial_path: [u8; PATH_LEN],
    return_path: [u8; PATH_LEN],
}

datagram!(Smp);

impl Smp {
    /// A packet with `header`, otherwise zero but for the permissive LIDs of a purely directed
    /// route.
    pub fn new(header: &MadHeader) -> Self {
        let permissive = U16::new(Lid::PERMISSIVE.get());
        let (dr_slid, dr_dlid) = if header.mgmt_class == class::SUBN_DR {
            (permissive, permissive)
        } else {
            (U16::ZERO, U16::ZERO)
        };
        Self {
            header: header.to_raw(),
            mkey: U64::ZERO,
            dr_slid,
            dr_dlid,
            reserved: [0; 28],
            data: [0; DATA_LEN],
            initial_path: [0; PATH_LEN],
            return_path: [0; PATH_LEN],
        }
    }

    /// Whether the packet is of the directed-route class.
    #[inline]
    pub const fn is_directed(&self) -> bool {
        self.header.mgmt_class == class::SUBN_DR
    }

    /// The method.
    #[inline]
    pub const fn method(&self) -> u8 {
        self.header.method
    }

    /// Sets the method.
    #[inline]
    pub fn set_method(&mut self, method: u8) {
        self.header.method = method;
    }

    /// The attribute ID.
    #[inline]
    pub const fn attr_id(&self) -> u16 {
        self.header.attr_id.get()
    }

    /// The attribute modifier.
    #[inline]
    pub const fn attr_mod(&self) -> u32 {
        self.header.attr_mod.get()
    }

    /// The status, without the direction bit of a directed-route packet.
    #[inline]
    pub const fn status(&self) -> u16 {
        let status = self.header.status.get();
        if self.is_directed() {
            status & !status::DIRECTION
        } else {
            status
        }
    }

    /// Sets the status; the direction bit of a directed-route packet stays.
    pub fn set_status(&mut self, status: u16) {
        let status = if self.is_directed() {
            status & !status::DIRECTION | self.header.status.get() & status::DIRECTION
        } else {
            status
        };
        self.header.status.set(status);
    }

    /// Whether a directed-route packet is on its way back (D bit).
    #[inline]
    pub const fn is_returning(&self) -> bool {
        self.is_directed() && self.header.status.get() & status::DIRECTION != 0
    }

    /// Sets the D bit of a directed-route packet.
    pub fn set_returning(&mut self, returning: bool) {
        let rest = self.header.status.get() & !status::DIRECTION;
        let bit = if returning { status::DIRECTION } else { 0 };
        self.header.status.set(rest | bit);
    }

    /// The hop pointer: where on its way a directed-route packet is. Any value may come in.
    #[inline]
    pub const fn hop_ptr(&self) -> u8 {
        self.header().hop_ptr()
    }

    /// Sets the hop pointer.
    pub fn set_hop_ptr(&mut self, hop_ptr: u8) {
        let hops = u16::from_be_bytes([hop_ptr, self.hop_cnt()]);
        self.header.class_specific.set(hops);
    }

    /// The hop count: how many hops the directed route has. Any value may come in; valid are 0 to
    /// [`MAX_HOPS`].
    #[inline]
    pub const fn hop_cnt(&self) -> u8 {
        self.header().hop_cnt()
    }

    /// Sets the hop count.
    pub fn set_hop_cnt(&mut self, hop_cnt: u8) {
        let hops = u16::from_be_bytes([self.hop_ptr(), hop_cnt]);
        self.header.class_specific.set(hops);
    }

    /// The management key.
    #[inline]
    pub const fn mkey(&self) -> u64 {
        self.mkey.get()
    }

    /// Sets the management key.
    pub fn set_mkey(&mut self, mkey: u64) {
        self.mkey.set(mkey);
    }

    /// Where the directed part of the route begins: [`Lid::PERMISSIVE`] if at the sender.
    #[inline]
    pub const fn dr_slid(&self) -> Lid {
        Lid::new(self.dr_slid.get())
    }

    /// Sets where the directed part begins.
    pub fn set_dr_slid(&mut self, lid: Lid) {
        self.dr_slid.set(lid.get());
    }

    /// Where to go when the directed part ends: [`Lid::PERMISSIVE`] if nowhere else.
    #[inline]
    pub const fn dr_dlid(&self) -> Lid {
        Lid::new(self.dr_dlid.get())
    }

    /// Sets where to go when the directed part ends.
    pub fn set_dr_dlid(&mut self, lid: Lid) {
        self.dr_dlid.set(lid.get());
    }

    /// The port by which to leave at hop `hop`; `None` beyond the path.
    #[inline]
    pub fn initial_path(&self, hop: u8) -> Option<PortNum> {
        let port = self.initial_path.get(usize::from(hop))?;
        Some(PortNum::new(*port))
    }

    /// Sets the port by which to leave at hop `hop`; `None` beyond the path.
    pub fn set_initial_path(&mut self, hop: u8, port: PortNum) -> Option<()> {
        *self.initial_path.get_mut(usize::from(hop))? = port.get();
        Some(())
    }

    /// The port by which the packet came in at hop `hop`; `None` beyond the path.
    #[inline]
    pub fn return_path(&self, hop: u8) -> Option<PortNum> {
        let port = self.return_path.get(usize::from(hop))?;
        Some(PortNum::new(*port))
    }

    /// Sets the port by which the packet came in at hop `hop`; `None` beyond the path.
    pub fn set_return_path(&mut self, hop: u8, port: PortNum) -> Option<()> {
        *self.return_path.get_mut(usize::from(hop))? = port.get();
        Some(())
    }

    /// The whole return path.
    #[inline]
    pub const fn return_path_bytes(&self) -> &[u8; PATH_LEN] {
        &self.return_path
    }

    /// The attribute's bytes.
    #[inline]
    pub const fn data(&self) -> &[u8; DATA_LEN] {
        &self.data
    }

    /// The attribute's bytes, to change them.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8; DATA_LEN] {
        &mut self.data
    }

    /// Reads the data as an attribute, whatever the attribute ID.
    pub fn attribute<T: Attribute>(&self) -> T {
        T::parse(&self.data)
    }

    /// Writes an attribute's data. The attribute ID stays.
    pub fn set_attribute<T: Attribute>(&mut self, attribute: &T) {
        attribute.emit(&mut self.data);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_smp))]
mod tests {
    use super::*;
    use crate::mad::method;

    fn directed() -> Smp {
        Smp::new(&MadHeader {
            mgmt_class: class::SUBN_DR,
            method: method::GET,
            attr_id: attr::NODE_INFO,
            tid: 1,
            ..MadHeader::default()
        })
    }

    #[test]
    fn fields_are_where_the_standard_has_them() {
        let mut smp = directed();
        smp.set_mkey(0x0102_0304_0506_0708);
        smp.set_dr_slid(Lid::new(0x1112));
        smp.set_hop_ptr(0x21);
        smp.set_hop_cnt(0x22);
        smp.set_returning(true);
        smp.set_status(status::INVALID_FIELD);
        assert_eq!(smp.set_initial_path(1, PortNum::new(0x31)), Some(()));
        assert_eq!(smp.set_return_path(63, PortNum::new(0x32)), Some(()));
        smp.data_mut()[0] = 0x41;
        let bytes = *smp.as_bytes();
        assert_eq!(bytes[4..8], [0x80, 0x1c, 0x21, 0x22][..]);
        assert_eq!(bytes[24..32], [1, 2, 3, 4, 5, 6, 7, 8][..]);
        assert_eq!(bytes[32..36], [0x11, 0x12, 0xff, 0xff][..]);
        assert_eq!(bytes[64], 0x41);
        assert_eq!(bytes[129], 0x31);
        assert_eq!(bytes[255], 0x32);
        let again = Smp::from_bytes(&bytes);
        assert_eq!(again.hop_ptr(), 0x21);
        assert_eq!(again.hop_cnt(), 0x22);
        assert_eq!(again.status(), status::INVALID_FIELD);
        assert!(again.is_returning());
        assert_eq!(again.dr_dlid(), Lid::PERMISSIVE);
        assert_eq!(again.initial_path(1), Some(PortNum::new(0x31)));
    }

    #[test]
    fn hops_beyond_the_path_are_refused() {
        let mut smp = directed();
        assert_eq!(smp.initial_path(64), None);
        assert_eq!(smp.return_path(255), None);
        assert_eq!(smp.set_return_path(64, PortNum::new(1)), None);
        assert_eq!(smp.set_initial_path(255, PortNum::new(1)), None);
    }

    #[test]
    fn direction_is_status_for_lid_routed() {
        let mut smp = Smp::new(&MadHeader {
            mgmt_class: class::SUBN_LID,
            ..MadHeader::default()
        });
        smp.set_status(0x8000);
        assert_eq!(smp.status(), 0x8000);
        assert!(!smp.is_returning());
        assert_eq!(smp.dr_slid(), Lid::NONE);
    }

    #[test]
    fn in_place() {
        let mut bytes = [0; crate::mad::MAD_LEN];
        Smp::from_bytes_mut(&mut bytes).set_method(method::GET_RESP);
        assert_eq!(bytes[3], 0x81);
    }
}
