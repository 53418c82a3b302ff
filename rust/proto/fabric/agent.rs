// SPDX-License-Identifier: GPL-2.0

//! What the subnet management agents of channel adapters and switches have in common.

use super::mkey::Access;
use super::port::InvalidField;
use wire::mad::smp::{
    Attribute,
    Smp, //
};
use wire::mad::{
    method,
    status,
    MadHeader,
    BASE_VERSION,
    CLASS_VERSION, //
};

/// What a datagram is to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// A request for an attribute.
    Request(Access),
    /// A trap has been seen.
    Repress,
    /// Not an agent's concern: traps, reports, answers.
    Foreign,
    /// A request that no agent can fulfil.
    Unfit(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The base or class version is unknown.
    Version,
    /// The method is unknown.
    Method,
    /// The attribute is unknown, or cannot be had by this method.
    Attribute,
    /// The attribute modifier or a component has a value that it may not have.
    Field,
}

impl Refusal {
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Version => status::BAD_VERSION,
            Self::Method => status::METHOD_UNSUPPORTED,
            Self::Attribute => status::ATTRIBUTE_UNSUPPORTED,
            Self::Field => status::INVALID_FIELD,
        }
    }
}

impl From<InvalidField> for Refusal {
    fn from(_: InvalidField) -> Self {
        Self::Field
    }
}

/// What a datagram with this header is to an agent.
pub(super) const fn errand(header: &MadHeader) -> Errand {
    if header.is_response() || matches!(header.method, method::SEND | method::TRAP | method::REPORT)
    {
        return Errand::Foreign;
    }
    if header.base_version != BASE_VERSION || header.class_version != CLASS_VERSION {
        return Errand::Unfit(Refusal::Version);
    }
    match header.method {
        method::GET => Errand::Request(Access::Read),
        method::SET => Errand::Request(Access::Write),
        method::TRAP_REPRESS => Errand::Repress,
        _ => Errand::Unfit(Refusal::Method),
    }
}

/// Makes the request `smp` its answer. What a refused request carried stays in it.
pub(super) fn answer(smp: &mut Smp, result: Result<(), Refusal>) {
    smp.set_method(method::GET_RESP);
    smp.set_status(match result {
        Ok(()) => status::OK,
        Err(refusal) => refusal.status(),
    });
    if smp.is_directed() {
        smp.set_returning(true);
    }
}

/// Answers for an attribute that can only be read.
pub(super) fn read_only<T: Attribute>(
    smp: &mut Smp,
    access: Access,
    attribute: &T,
) -> Result<(), Refusal> {
    if access == Access::Write {
        return Err(Refusal::Attribute);
    }
    smp.set_attribute(attribute);
    Ok(())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_agent))]
mod tests {
    use super::*;
    use wire::mad::class;

    fn header(base_version: u8, class_version: u8, method: u8) -> MadHeader {
        MadHeader {
            base_version,
            class_version,
            method,
            ..MadHeader::default()
        }
    }

    #[test]
    fn errands() {
        for (base, class, method, want) in [
            (1, 1, 0x01, Errand::Request(Access::Read)),
            (1, 1, 0x02, Errand::Request(Access::Write)),
            (1, 1, 0x07, Errand::Repress),
            (1, 1, 0x05, Errand::Foreign),
            (1, 1, 0x81, Errand::Foreign),
            (2, 1, 0x81, Errand::Foreign),
            (1, 1, 0x04, Errand::Unfit(Refusal::Method)),
            (2, 1, 0x01, Errand::Unfit(Refusal::Version)),
            (1, 2, 0x01, Errand::Unfit(Refusal::Version)),
        ] {
            assert_eq!(errand(&header(base, class, method)), want);
        }
    }

    #[test]
    fn answers_turn_round() {
        for (class, result, bytes) in [
            (class::SUBN_DR, Ok(()), [0x81, 0x80, 0x00]),
            (class::SUBN_DR, Err(Refusal::Field), [0x81, 0x80, 0x1c]),
            (class::SUBN_LID, Err(Refusal::Attribute), [0x81, 0x00, 0x0c]),
            (class::SUBN_LID, Err(Refusal::Method), [0x81, 0x00, 0x08]),
            (class::SUBN_LID, Err(Refusal::Version), [0x81, 0x00, 0x04]),
        ] {
            let mut smp = Smp::new(&MadHeader {
                mgmt_class: class,
                ..MadHeader::default()
            });
            answer(&mut smp, result);
            assert_eq!(smp.as_bytes()[3..6], bytes[..]);
        }
    }
}
