// SPDX-License-Identifier: GPL-2.0

//! The BTH opcodes and what each of them carries, as one table.
//!
//! Source: IBA "Base Transport Header", table "OpCode Field", and annex A19 "Memory Placement
//! Extensions" for FLUSH and ATOMIC WRITE. C header:
//! [`include/rdma/ib_pack.h`](srctree/include/rdma/ib_pack.h).

/// A transport service: the upper three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram. No packet of it is accepted; the table names what it is.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
}

impl Service {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// An operation: the lower five bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table below says what each one is")]
pub enum Operation {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastImm,
    SendOnly,
    SendOnlyImm,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastImm,
    WriteOnly,
    WriteOnlyImm,
    ReadRequest,
    ReadRespFirst,
    ReadRespMiddle,
    ReadRespLast,
    ReadRespOnly,
    Ack,
    AtomicAck,
    CompareSwap,
    FetchAdd,
    Resync,
    SendLastInv,
    SendOnlyInv,
    Flush,
    AtomicWrite,
    CongestionNotification,
    /// One that the table of a reliable connection reserves. Its responder refuses it.
    Reserved,
}

impl Operation {
    /// Whether it is a request that another response than an acknowledgement answers.
    #[inline]
    pub const fn is_fetch(self) -> bool {
        matches!(
            self,
            Self::ReadRequest
                | Self::CompareSwap
                | Self::FetchAdd
                | Self::AtomicWrite
                | Self::Flush
        )
    }
}

/// Properties of an opcode, as bits.
mod flag {
    pub(super) const REQUEST: u16 = 1 << 0;
    pub(super) const RESPONSE: u16 = 1 << 1;
    pub(super) const START: u16 = 1 << 2;
    pub(super) const END: u16 = 1 << 3;
    pub(super) const PAYLOAD: u16 = 1 << 4;
    pub(super) const RDETH: u16 = 1 << 5;
    pub(super) const DETH: u16 = 1 << 6;
    pub(super) const RETH: u16 = 1 << 7;
    pub(super) const AETH: u16 = 1 << 8;
    pub(super) const ATOMIC_ETH: u16 = 1 << 9;
    pub(super) const ATOMIC_ACK: u16 = 1 << 10;
    pub(super) const IMM: u16 = 1 << 11;
    pub(super) const IETH: u16 = 1 << 12;
    pub(super) const FETH: u16 = 1 << 13;
}

use flag::*;

/// Size in bytes of each extension header, beside the flag that announces it.
const EXTENSIONS: [(u16, u8); 9] = [
    (RDETH, 4),
    (DETH, 8),
    (FETH, 4),
    (RETH, 16),
    (ATOMIC_ETH, 28),
    (AETH, 4),
    (ATOMIC_ACK, 8),
    (IMM, 4),
    (IETH, 4),
];

struct Row {
    code: u8,
    operation: Operation,
    services: u8,
    flags: u16,
}

const fn row(code: u8, operation: Operation, services: u8, flags: u16) -> Row {
    Row {
        code,
        operation,
        services,
        flags,
    }
}

const RC: u8 = Service::Rc.bit();
const UC: u8 = Service::Uc.bit();
const RD: u8 = Service::Rd.bit();
const UD: u8 = Service::Ud.bit();
const CNP: u8 = Service::Cnp.bit();

/// One row per operation: its five bits, the services that have it, and its properties apart from those
/// that the service adds.
#[rustfmt::skip]
const TABLE: [Row; 27] = {
    use Operation::*;
    [
        row(0x00, SendFirst,      RC | UC | RD,      REQUEST | START | PAYLOAD),
        row(0x01, SendMiddle,     RC | UC | RD,      REQUEST | PAYLOAD),
        row(0x02, SendLast,       RC | UC | RD,      REQUEST | END | PAYLOAD),
        row(0x03, SendLastImm,    RC | UC | RD,      REQUEST | END | PAYLOAD | IMM),
        row(0x04, SendOnly,       RC | UC | RD | UD, REQUEST | START | END | PAYLOAD),
        row(0x05, SendOnlyImm,    RC | UC | RD | UD, REQUEST | START | END | PAYLOAD | IMM),
        row(0x06, WriteFirst,     RC | UC | RD,      REQUEST | START | PAYLOAD | RETH),
        row(0x07, WriteMiddle,    RC | UC | RD,      REQUEST | PAYLOAD),
        row(0x08, WriteLast,      RC | UC | RD,      REQUEST | END | PAYLOAD),
        row(0x09, WriteLastImm,   RC | UC | RD,      REQUEST | END | PAYLOAD | IMM),
        row(0x0a, WriteOnly,      RC | UC | RD,      REQUEST | START | END | PAYLOAD | RETH),
        row(0x0b, WriteOnlyImm,   RC | UC | RD,      REQUEST | START | END | PAYLOAD | RETH | IMM),
        row(0x0c, ReadRequest,    RC | RD,           REQUEST | START | END | RETH),
        row(0x0d, ReadRespFirst,  RC | RD,           RESPONSE | START | PAYLOAD | AETH),
        row(0x0e, ReadRespMiddle, RC | RD,           RESPONSE | PAYLOAD),
        row(0x0f, ReadRespLast,   RC | RD,           RESPONSE | END | PAYLOAD | AETH),
        row(0x10, ReadRespOnly,   RC | RD,           RESPONSE | START | END | PAYLOAD | AETH),
        row(0x11, Ack,            RC | RD,           RESPONSE | START | END | AETH),
        row(0x12, AtomicAck,      RC | RD,           RESPONSE | START | END | AETH | ATOMIC_ACK),
        row(0x13, CompareSwap,    RC | RD,           REQUEST | START | END | ATOMIC_ETH),
        row(0x14, FetchAdd,       RC | RD,           REQUEST | START | END | ATOMIC_ETH),
        row(0x15, Resync,         RD,                REQUEST | START | END),
        row(0x16, SendLastInv,    RC,                REQUEST | END | PAYLOAD | IETH),
        row(0x17, SendOnlyInv,    RC,                REQUEST | START | END | PAYLOAD | IETH),
        row(0x1c, Flush,          RC,                REQUEST | START | END | FETH | RETH),
        row(0x1d, AtomicWrite,    RC,                REQUEST | START | END | PAYLOAD | RETH),
        row(0x00, CongestionNotification, CNP,       START | END | PAYLOAD),
    ]
};

/// What the service adds to the properties of an operation.
const fn service_flags(service: Service, flags: u16) -> u16 {
    match service {
        Service::Rc | Service::Uc | Service::Cnp => 0,
        Service::Ud => DETH,
        Service::Rd if flags & REQUEST != 0 => RDETH | DETH,
        Service::Rd => RDETH,
    }
}

const SERVICES: [Service; 5] = [
    Service::Rc,
    Service::Uc,
    Service::Rd,
    Service::Ud,
    Service::Cnp,
];

/// Opcodes of a service, known or not.
const PER_SERVICE: usize = 1 << 5;

/// The table spread over all byte values.
static OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut i = 0;
    while i < TABLE.len() {
        let row = &TABLE[i];
        let mut j = 0;
        while j < SERVICES.len() {
            let service = SERVICES[j];
            if row.services & service.bit() != 0 {
                let opcode = Opcode::of_row(row, service);
                opcodes[opcode.byte as usize] = Some(opcode);
            }
            j += 1;
        }
        i += 1;
    }
    let mut code = 0;
    while code < PER_SERVICE {
        let byte = (Service::Rc as usize) << 5 | code;
        if opcodes[byte].is_none() {
            opcodes[byte] = Some(Opcode::reserved(code as u8));
        }
        code += 1;
    }
    opcodes
};

/// A BTH opcode that has a meaning to a receiver.
///
/// # Invariants
///
/// The value is an entry of the IBA's table: service and operation go together. One with [`Operation::Reserved`] is of a
/// reliable connection, and has the byte that it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode {
    byte: u8,
    service: Service,
    operation: Operation,
    ext_len: u8,
    flags: u16,
}

impl Default for Opcode {
    /// RC SEND Only, the all-zero packet's nearest neighbour that is a whole message.
    fn default() -> Self {
        const { Self::of_row(&TABLE[Operation::SendOnly as usize], Service::Rc) }
    }
}

impl Opcode {
    /// Evaluated at compile time only.
    const fn of_row(row: &Row, service: Service) -> Self {
        let flags = row.flags | service_flags(service, row.flags);
        let mut ext_len = 0;
        let mut i = 0;
        while i < EXTENSIONS.len() {
            let (flag, size) = EXTENSIONS[i];
            if flags & flag != 0 {
                ext_len += size;
            }
            i += 1;
        }
        // INVARIANT: The row is of the table, and callers pass a service that the row lists.
        Self {
            byte: (service as u8) << 5 | row.code,
            service,
            operation: row.operation,
            ext_len,
            flags,
        }
    }

    /// A reserved opcode of a reliable connection. What follows the BTH is anybody's guess, and no message goes on
    /// with it. Evaluated at compile time only.
    const fn reserved(code: u8) -> Self {
        // INVARIANT: As it says.
        Self {
            byte: (Service::Rc as u8) << 5 | code,
            service: Service::Rc,
            operation: Operation::Reserved,
            ext_len: 0,
            flags: REQUEST | START | END | PAYLOAD,
        }
    }

    /// The opcode of an operation of a service; `None` if the service has no such operation, or that is
    /// [`Operation::Reserved`].
    #[inline]
    pub fn new(service: Service, operation: Operation) -> Option<Self> {
        let code = TABLE.get(operation as usize)?.code;
        let opcode = Self::from_byte((service as u8) << 5 | code)?;
        (opcode.operation == operation).then_some(opcode)
    }

    /// The opcode of a byte; `None` for a manufacturer's one, and for one that is reserved but not of a reliable
    /// connection.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        OPCODES.get(usize::from(byte)).copied().flatten()
    }

    /// The byte on the wire.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.byte
    }

    /// The transport service.
    #[inline]
    pub const fn service(self) -> Service {
        self.service
    }

    /// The operation.
    #[inline]
    pub const fn operation(self) -> Operation {
        self.operation
    }

    const fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether a requester sends it.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.has(REQUEST)
    }

    /// Whether a responder sends it.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.has(RESPONSE)
    }

    /// Whether it is the first or only packet of a message.
    #[inline]
    pub const fn starts(self) -> bool {
        self.has(START)
    }

    /// Whether it is the last or only packet of a message.
    #[inline]
    pub const fn ends(self) -> bool {
        self.has(END)
    }

    /// Whether a payload may follow the headers.
    #[inline]
    pub const fn has_payload(self) -> bool {
        self.has(PAYLOAD)
    }

    /// Whether an RDETH follows the BTH (reliable datagram only).
    #[inline]
    pub const fn has_rdeth(self) -> bool {
        self.has(RDETH)
    }

    /// Whether there is a DETH.
    #[inline]
    pub const fn has_deth(self) -> bool {
        self.has(DETH)
    }

    /// Whether there is a RETH.
    #[inline]
    pub const fn has_reth(self) -> bool {
        self.has(RETH)
    }

    /// Whether there is an AETH.
    #[inline]
    pub const fn has_aeth(self) -> bool {
        self.has(AETH)
    }

    /// Whether there is an AtomicETH.
    #[inline]
    pub const fn has_atomic_eth(self) -> bool {
        self.has(ATOMIC_ETH)
    }

    /// Whether there is an AtomicAckETH.
    #[inline]
    pub const fn has_atomic_ack(self) -> bool {
        self.has(ATOMIC_ACK)
    }

    /// Whether there are immediate data.
    #[inline]
    pub const fn has_imm(self) -> bool {
        self.has(IMM)
    }

    /// Whether there is an IETH.
    #[inline]
    pub const fn has_ieth(self) -> bool {
        self.has(IETH)
    }

    /// Whether there is a FETH.
    #[inline]
    pub const fn has_feth(self) -> bool {
        self.has(FETH)
    }

    /// Size in bytes of all extension headers together (0 to 40).
    #[inline]
    pub const fn ext_len(self) -> usize {
        self.ext_len as usize
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_opcode))]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.operation as usize, i);
        }
    }

    #[test]
    fn every_byte_round_trips() {
        let mut known = 0;
        for byte in 0..=0xff {
            if let Some(opcode) = Opcode::from_byte(byte) {
                known += 1;
                assert_eq!(opcode.byte(), byte);
                assert_eq!(opcode.service() as u8, byte >> 5);
                let is_reserved = opcode.operation() == Operation::Reserved;
                assert_eq!(
                    Opcode::new(opcode.service(), opcode.operation()),
                    (!is_reserved).then_some(opcode)
                );
                assert!(!(opcode.is_request() && opcode.is_response()));
                assert_eq!(opcode.ext_len() % 4, 0);
            }
        }
        // RC 32, 7 of them reserved, UC 12, RD 22, UD 2, CNP 1.
        assert_eq!(known, 69);
    }

    #[test]
    fn services_lack_what_the_table_says() {
        assert_eq!(Opcode::new(Service::Ud, Operation::SendFirst), None);
        assert_eq!(Opcode::new(Service::Uc, Operation::ReadRequest), None);
        assert_eq!(Opcode::new(Service::Uc, Operation::SendOnlyInv), None);
        assert_eq!(Opcode::new(Service::Cnp, Operation::SendFirst), None);
        assert_eq!(
            Opcode::new(Service::Rc, Operation::CongestionNotification),
            None
        );
        assert_eq!(Opcode::new(Service::Rc, Operation::Resync), None);
        assert_eq!(Opcode::from_byte(0x38), None);
        assert_eq!(Opcode::from_byte(0xff), None);
    }

    /// Bytes and extension sizes written down from the IBA's table, independent of [`TABLE`].
    #[test]
    fn known_opcodes() {
        for (byte, ext_len, request, starts, ends) in [
            (0x00, 0, true, true, false),
            (0x01, 0, true, false, false),
            (0x02, 0, true, false, true),
            (0x03, 4, true, false, true),
            (0x04, 0, true, true, true),
            (0x05, 4, true, true, true),
            (0x06, 16, true, true, false),
            (0x07, 0, true, false, false),
            (0x08, 0, true, false, true),
            (0x09, 4, true, false, true),
            (0x0a, 16, true, true, true),
            (0x0b, 20, true, true, true),
            (0x0c, 16, true, true, true),
            (0x0d, 4, false, true, false),
            (0x0e, 0, false, false, false),
            (0x0f, 4, false, false, true),
            (0x10, 4, false, true, true),
            (0x11, 4, false, true, true),
            (0x12, 12, false, true, true),
            (0x13, 28, true, true, true),
            (0x14, 28, true, true, true),
            (0x16, 4, true, false, true),
            (0x17, 4, true, true, true),
            (0x1c, 20, true, true, true),
            (0x1d, 16, true, true, true),
            (0x24, 0, true, true, true),
            (0x2b, 20, true, true, true),
            (0x44, 12, true, true, true),
            (0x51, 8, false, true, true),
            (0x64, 8, true, true, true),
            (0x65, 12, true, true, true),
        ] {
            let found = Opcode::from_byte(byte);
            assert!(found.is_some());
            if let Some(opcode) = found {
                assert_eq!(opcode.ext_len(), ext_len);
                assert_eq!(opcode.is_request(), request);
                assert_eq!(opcode.is_response(), !request);
                assert_eq!(opcode.starts(), starts);
                assert_eq!(opcode.ends(), ends);
            }
        }
    }

    #[test]
    fn what_a_reliable_connection_reserves_is_a_request() {
        for byte in [0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f] {
            let found = Opcode::from_byte(byte);
            assert!(found.is_some());
            if let Some(opcode) = found {
                assert_eq!(opcode.operation(), Operation::Reserved);
                assert!(opcode.is_request() && opcode.starts() && opcode.ends());
                assert_eq!(opcode.ext_len(), 0);
            }
        }
    }

    #[test]
    fn default_is_rc_send_only() {
        assert_eq!(
            Some(Opcode::default()),
            Opcode::new(Service::Rc, Operation::SendOnly)
        );
    }
}
