// SPDX-License-Identifier: GPL-2.0

//! States of a queue pair and the ways between them.
//!
//! Source: IBA "Queue Pair and EE Context States" and the tables of "Modify Queue Pair".

/// Type of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QpType {
    /// Subnet management interface: QP0.
    Smi,
    /// General service interface: QP1.
    Gsi,
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpType {
    /// Whether each work request names its own destination.
    #[inline]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Smi | Self::Gsi | Self::Ud)
    }
}

/// State of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QpState {
    /// As created.
    #[default]
    Reset,
    /// Receive work requests may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send, too.
    Rts,
    /// Send queue drain: what has begun goes on, nothing new begins.
    Sqd,
    /// Send queue error: the send queue flushes, the receive queue works. Never the state of an RC queue pair.
    Sqe,
    /// Error: both queues flush.
    Err,
}

impl QpState {
    /// Whether packets from the peer count.
    #[inline]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether send work requests are carried out.
    #[inline]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }

    /// Whether send work requests may be posted, be it to be flushed.
    #[inline]
    pub const fn takes_sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd | Self::Sqe | Self::Err)
    }
}

/// A set of attributes. The bits are those of `enum ib_qp_attr_mask`,
/// [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrMask(u32);

#[allow(missing_docs, reason = "the names are the verbs' own")]
impl AttrMask {
    pub const NONE: Self = Self(0);
    pub const STATE: Self = Self(1 << 0);
    pub const CUR_STATE: Self = Self(1 << 1);
    pub const EN_SQD_ASYNC_NOTIFY: Self = Self(1 << 2);
    pub const ACCESS_FLAGS: Self = Self(1 << 3);
    pub const PKEY_INDEX: Self = Self(1 << 4);
    pub const PORT: Self = Self(1 << 5);
    pub const QKEY: Self = Self(1 << 6);
    pub const AV: Self = Self(1 << 7);
    pub const PATH_MTU: Self = Self(1 << 8);
    pub const TIMEOUT: Self = Self(1 << 9);
    pub const RETRY_CNT: Self = Self(1 << 10);
    pub const RNR_RETRY: Self = Self(1 << 11);
    pub const RQ_PSN: Self = Self(1 << 12);
    pub const MAX_QP_RD_ATOMIC: Self = Self(1 << 13);
    pub const ALT_PATH: Self = Self(1 << 14);
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    pub const SQ_PSN: Self = Self(1 << 16);
    pub const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    pub const PATH_MIG_STATE: Self = Self(1 << 18);
    pub const CAP: Self = Self(1 << 19);
    pub const DEST_QPN: Self = Self(1 << 20);
}

impl AttrMask {
    /// The set of these bits.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Both sets together.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What of this set is not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is in this set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Why a queue pair cannot go from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionError {
    /// There is no such way.
    NotAllowed,
    /// These attributes must be given.
    Missing(AttrMask),
    /// These attributes must not be given.
    Invalid(AttrMask),
}

/// A set of attributes for each type; SMI and GSI share theirs.
struct ByType {
    rc: AttrMask,
    uc: AttrMask,
    ud: AttrMask,
    mi: AttrMask,
}

impl ByType {
    const fn get(&self, qp_type: QpType) -> AttrMask {
        match qp_type {
            QpType::Rc => self.rc,
            QpType::Uc => self.uc,
            QpType::Ud => self.ud,
            QpType::Smi | QpType::Gsi => self.mi,
        }
    }
}

/// A way between states that takes attributes.
struct Transition {
    from: QpState,
    to: QpState,
    required: ByType,
    optional: ByType,
}

macro_rules! mask {
    ($($name:ident)*) => {
        AttrMask::NONE$(.with(AttrMask::$name))*
    };
}

macro_rules! transition {
    ($from:ident -> $to:ident,
     required { rc: [$($rrc:ident)*], uc: [$($ruc:ident)*], ud: [$($rud:ident)*], mi: [$($rmi:ident)*] },
     optional { rc: [$($orc:ident)*], uc: [$($ouc:ident)*], ud: [$($oud:ident)*], mi: [$($omi:ident)*] }) => {
        Transition {
            from: QpState::$from,
            to: QpState::$to,
            required: ByType {
                rc: mask!($($rrc)*), uc: mask!($($ruc)*), ud: mask!($($rud)*), mi: mask!($($rmi)*),
            },
            optional: ByType {
                rc: mask!($($orc)*), uc: mask!($($ouc)*), ud: mask!($($oud)*), mi: mask!($($omi)*),
            },
        }
    };
}

/// All ways but those to RESET and to ERR, which every state has and which take no attribute.
#[rustfmt::skip]
static TRANSITIONS: [Transition; 9] = [
    transition!(Reset -> Init,
        required {
            rc: [PKEY_INDEX PORT ACCESS_FLAGS],
            uc: [PKEY_INDEX PORT ACCESS_FLAGS],
            ud: [PKEY_INDEX PORT QKEY],
            mi: [PKEY_INDEX QKEY]
        },
        optional { rc: [], uc: [], ud: [], mi: [] }),
    transition!(Init -> Init,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [PKEY_INDEX PORT ACCESS_FLAGS],
            uc: [PKEY_INDEX PORT ACCESS_FLAGS],
            ud: [PKEY_INDEX PORT QKEY],
            mi: [PKEY_INDEX QKEY]
        }),
    transition!(Init -> Rtr,
        required {
            rc: [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER],
            uc: [AV PATH_MTU DEST_QPN RQ_PSN],
            ud: [],
            mi: []
        },
        optional {
            rc: [ALT_PATH ACCESS_FLAGS PKEY_INDEX],
            uc: [ALT_PATH ACCESS_FLAGS PKEY_INDEX],
            ud: [PKEY_INDEX QKEY],
            mi: [PKEY_INDEX QKEY]
        }),
    transition!(Rtr -> Rts,
        required {
            rc: [TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC],
            uc: [SQ_PSN],
            ud: [SQ_PSN],
            mi: [SQ_PSN]
        },
        optional {
            rc: [CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE],
            uc: [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE],
            ud: [CUR_STATE QKEY],
            mi: [CUR_STATE QKEY]
        }),
    transition!(Rts -> Rts,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE],
            uc: [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE],
            ud: [CUR_STATE QKEY],
            mi: [CUR_STATE QKEY]
        }),
    transition!(Rts -> Sqd,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [EN_SQD_ASYNC_NOTIFY],
            uc: [EN_SQD_ASYNC_NOTIFY],
            ud: [EN_SQD_ASYNC_NOTIFY],
            mi: [EN_SQD_ASYNC_NOTIFY]
        }),
    transition!(Sqd -> Rts,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE],
            uc: [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE],
            ud: [CUR_STATE QKEY],
            mi: [CUR_STATE QKEY]
        }),
    transition!(Sqd -> Sqd,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC
                 ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE],
            uc: [PORT AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE],
            ud: [PKEY_INDEX QKEY],
            mi: [PKEY_INDEX QKEY]
        }),
    transition!(Sqe -> Rts,
        required { rc: [], uc: [], ud: [], mi: [] },
        optional {
            rc: [],
            uc: [CUR_STATE ACCESS_FLAGS],
            ud: [CUR_STATE QKEY],
            mi: [CUR_STATE QKEY]
        }),
];

/// Whether a queue pair of a type may go from one state to another with these attributes.
/// [`AttrMask::STATE`] is of no matter.
///
/// # Errors
///
/// What is wrong first: the way, what is missing, what is too much.
pub fn check(
    qp_type: QpType,
    from: QpState,
    to: QpState,
    mask: AttrMask,
) -> Result<(), TransitionError> {
    let mask = mask.without(AttrMask::STATE);
    let (required, optional) = if matches!(to, QpState::Reset | QpState::Err) {
        (AttrMask::NONE, AttrMask::NONE)
    } else {
        let way = TRANSITIONS
            .iter()
            .find(|way| way.from == from && way.to == to)
            .ok_or(TransitionError::NotAllowed)?;
        if from == QpState::Sqe && qp_type == QpType::Rc {
            return Err(TransitionError::NotAllowed);
        }
        (way.required.get(qp_type), way.optional.get(qp_type))
    };
    let missing = required.without(mask);
    let invalid = mask.without(required.with(optional));
    if !missing.is_empty() {
        Err(TransitionError::Missing(missing))
    } else if !invalid.is_empty() {
        Err(TransitionError::Invalid(invalid))
    } else {
        Ok(())
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_qp_state))]
mod tests {
    use super::*;

    const STATES: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];
    const TYPES: [QpType; 5] = [QpType::Smi, QpType::Gsi, QpType::Rc, QpType::Uc, QpType::Ud];

    #[test]
    fn the_ways_are_the_iba_s() {
        // One character per destination, in the order of `STATES`.
        for (from, ways) in STATES.into_iter().zip([
            "yy....y", // RESET
            "yyy...y", // INIT
            "y..y..y", // RTR
            "y..yy.y", // RTS
            "y..yy.y", // SQD
            "y..y..y", // SQE
            "y.....y", // ERR
        ]) {
            for (to, way) in STATES.into_iter().zip(ways.bytes()) {
                let result = check(QpType::Ud, from, to, AttrMask::NONE);
                let is_way = result != Err(TransitionError::NotAllowed);
                let expected = way == b'y';
                assert_eq!(is_way, expected);
            }
        }
    }

    #[test]
    fn reset_and_error_are_always_near() {
        for qp_type in TYPES {
            for from in STATES {
                assert_eq!(
                    check(qp_type, from, QpState::Reset, AttrMask::STATE),
                    Ok(())
                );
                assert_eq!(check(qp_type, from, QpState::Err, AttrMask::STATE), Ok(()));
                assert_eq!(
                    check(qp_type, from, QpState::Err, AttrMask::QKEY),
                    Err(TransitionError::Invalid(AttrMask::QKEY))
                );
            }
        }
    }

    #[test]
    fn rc_needs_its_attributes() {
        let needed = mask!(AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER);
        let given = needed.without(AttrMask::RQ_PSN);
        assert_eq!(
            check(QpType::Rc, QpState::Init, QpState::Rtr, given),
            Err(TransitionError::Missing(AttrMask::RQ_PSN))
        );
        assert_eq!(
            check(QpType::Rc, QpState::Init, QpState::Rtr, needed),
            Ok(())
        );
        assert_eq!(
            check(QpType::Uc, QpState::Init, QpState::Rtr, needed),
            Err(TransitionError::Invalid(
                mask!(MAX_DEST_RD_ATOMIC MIN_RNR_TIMER)
            ))
        );
        assert_eq!(
            check(QpType::Ud, QpState::Init, QpState::Rtr, AttrMask::STATE),
            Ok(())
        );
    }

    #[test]
    fn a_path_may_be_named_with_its_port() {
        // As ib_core does with each path that a program gives a queue pair in SQD.
        for qp_type in [QpType::Rc, QpType::Uc] {
            assert_eq!(
                check(qp_type, QpState::Sqd, QpState::Sqd, mask!(AV PORT)),
                Ok(())
            );
        }
    }

    #[test]
    fn rc_has_no_send_queue_error() {
        assert_eq!(
            check(QpType::Rc, QpState::Sqe, QpState::Rts, AttrMask::STATE),
            Err(TransitionError::NotAllowed)
        );
        assert_eq!(
            check(QpType::Ud, QpState::Sqe, QpState::Rts, AttrMask::QKEY),
            Ok(())
        );
    }
}
