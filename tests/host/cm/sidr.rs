// SPDX-License-Identifier: GPL-2.0

//! Questions about services of datagrams, and their answers.

use crate::ends::{
    path,
    source, //
};
use proptest::prelude::*;
use proto::cm::{
    Refusal,
    Resolution,
    SidrAction,
    SidrAnswer,
    SidrEvent,
    SidrKey,
    SidrNotice,
    SidrOrder,
    SidrState,
    SidrTiming, //
};
use proto::time::{
    Duration,
    Instant, //
};
use wire::mad::cm::{
    attr,
    sidr_status,
    Cm,
    SidrRep,
    SidrReq, //
};
use wire::{
    PKey,
    QKey,
    Qpn, //
};

const REQUEST_ID: u32 = 0xabcd;
const TID: u64 = 0x5_0000_0000;
const SERVICE: u64 = 0x02ff_0000_0000_0077;

const TIMING: SidrTiming = SidrTiming {
    response: 16,
    retries: 2,
};

const ANSWER: SidrAnswer<'static> = SidrAnswer {
    status: sidr_status::VALID,
    qpn: Qpn::new(0x33),
    qkey: QKey::new(0x1122_3344),
    info: b"about it",
};

fn question() -> SidrReq {
    SidrReq {
        request_id: 0,
        pkey: PKey::new(0xffff),
        service_id: SERVICE,
    }
}

fn ask<'a>(req: &'a SidrReq, path: &'a wire::mad::cm::Path) -> SidrEvent<'a> {
    SidrEvent::Order(SidrOrder::Ask(req, path, TIMING, b"who?"))
}

/// One end, and what it has done.
struct End {
    it: Resolution,
    now: Instant,
}

impl End {
    fn new(it: Resolution) -> Self {
        Self {
            it,
            now: Instant::default(),
        }
    }

    /// The end that has asked.
    fn asking() -> Self {
        let mut end = Self::new(Resolution::new(REQUEST_ID, TID));
        assert_eq!(
            end.step(ask(&question(), &path(0))),
            Ok(vec![SidrAction::Send])
        );
        end
    }

    /// The end that is asked.
    fn asked(by: &Self) -> Self {
        Self::new(Resolution::incoming(by.it.datagram(), source(true, 0)))
    }

    fn step(&mut self, event: SidrEvent<'_>) -> Result<Vec<SidrAction>, Refusal> {
        Ok(self.it.step(event, self.now)?.iter().collect())
    }

    fn answer(&mut self, answer: &SidrAnswer<'_>) -> Result<Vec<SidrAction>, Refusal> {
        self.step(SidrEvent::Order(SidrOrder::Answer(answer, b"me")))
    }

    fn destroy(&mut self) -> Vec<SidrAction> {
        self.step(SidrEvent::Order(SidrOrder::Destroy)).unwrap()
    }

    /// Takes a datagram from the other end's port with this number.
    fn hear(&mut self, mad: &Cm, number: u8) -> Vec<SidrAction> {
        let from = source(mad.attr_id() == attr::SIDR_REQ, number);
        self.step(SidrEvent::Received(mad, from)).unwrap()
    }

    fn wait(&mut self) -> Vec<SidrAction> {
        self.now = self.it.deadline().expect("nothing to wait for");
        self.step(SidrEvent::Tick).unwrap()
    }
}

#[test]
fn a_question_is_answered() {
    let mut a = End::asking();
    let mad = a.it.datagram().clone();
    assert_eq!(mad.attr_id(), attr::SIDR_REQ);
    assert_eq!(mad.private_data()[..5], *b"who?\0");
    assert_eq!(
        mad.message::<SidrReq>(),
        SidrReq {
            request_id: REQUEST_ID,
            ..question()
        }
    );
    let mut p = End::asked(&a);
    assert_eq!(p.it.state(), SidrState::Asked);
    assert_eq!(
        (p.it.service_id(), p.it.request_id()),
        (SERVICE, REQUEST_ID)
    );
    assert_eq!(p.it.deadline(), None);
    assert_eq!(p.answer(&ANSWER), Ok(vec![SidrAction::Send]));
    let mad = p.it.datagram().clone();
    assert_eq!(mad.attr_id(), attr::SIDR_REP);
    assert_eq!(mad.private_data()[..3], *b"me\0");
    let rep: SidrRep = mad.message();
    assert_eq!(
        (rep.request_id, rep.status, rep.service_id),
        (REQUEST_ID, sidr_status::VALID, SERVICE)
    );
    assert_eq!((rep.qpn, rep.qkey), (ANSWER.qpn, ANSWER.qkey));
    assert_eq!(rep.info[..8], *ANSWER.info);
    assert_eq!(rep.info_length, 8);
    let told = vec![SidrAction::Tell(SidrNotice::RepReceived)];
    assert_eq!(a.hear(&mad, 0), told);
    assert_eq!(a.it.state(), SidrState::Idle);
    assert_eq!(a.it.deadline(), None);
    // And no second time.
    assert_eq!(a.hear(&mad, 0), []);
}

#[test]
fn a_question_is_repeated_and_given_up() {
    let mut a = End::asking();
    let first = a.it.datagram().clone();
    // Two ways of 34 ms, half of what an acknowledgement takes, and 268 ms.
    let due = Instant::default().after(Duration::from_nanos(4096 * ((1 << 14) + (1 << 16))));
    assert_eq!(a.it.deadline(), Some(due));
    assert_eq!(a.step(SidrEvent::Tick), Ok(vec![]));
    for _ in 0..TIMING.retries {
        assert_eq!(a.wait(), [SidrAction::Send]);
        assert_eq!(*a.it.datagram(), first);
    }
    assert_eq!(a.wait(), [SidrAction::Tell(SidrNotice::ReqError)]);
    assert_eq!(a.it.state(), SidrState::Idle);
    assert_eq!(a.it.deadline(), None);
    let mut p = End::new(Resolution::incoming(&first, source(true, 0)));
    p.answer(&ANSWER).unwrap();
    // Too late; and also for the next question.
    assert_eq!(a.hear(p.it.datagram(), 0), []);
    assert_eq!(
        a.step(ask(&question(), &path(0))),
        Ok(vec![SidrAction::Send])
    );
    assert_eq!(a.hear(p.it.datagram(), 0), []);
    assert_eq!(a.it.state(), SidrState::Asking);
}

#[test]
fn an_answer_is_repeated_as_long_as_somebody_may_ask() {
    let a = End::asking();
    let mad = a.it.datagram().clone();
    let mut p = End::asked(&a);
    // The consumer takes its time: it is told once.
    assert_eq!(p.hear(&mad, 0), []);
    p.answer(&ANSWER).unwrap();
    let answer = p.it.datagram().clone();
    assert_eq!(p.hear(&mad, 0), [SidrAction::Send]);
    assert_eq!(p.destroy(), []);
    assert_eq!(p.hear(&mad, 0), [SidrAction::Send]);
    assert_eq!(*p.it.datagram(), answer);
    assert_eq!(p.wait(), [SidrAction::Free]);
    assert_eq!(p.it.state(), SidrState::Idle);
    assert_eq!(p.hear(&mad, 0), []);
}

#[test]
fn every_status_is_told() {
    for status in sidr_status::VALID..=sidr_status::UNSUPPORTED_VERSION {
        let mut a = End::asking();
        let mut p = End::asked(&a);
        p.answer(&SidrAnswer { status, ..ANSWER }).unwrap();
        let mad = p.it.datagram().clone();
        let rep: SidrRep = mad.message();
        assert_eq!(rep.status, status);
        // A refusal gives no Q_Key away.
        let named = (rep.qpn, rep.qkey) == (ANSWER.qpn, ANSWER.qkey);
        let silent = (rep.qpn, rep.qkey) == (Qpn::default(), QKey::default());
        assert!(if status == sidr_status::VALID {
            named
        } else {
            silent
        });
        assert_eq!(a.hear(&mad, 0), [SidrAction::Tell(SidrNotice::RepReceived)]);
    }
}

#[test]
fn a_consumer_that_goes_has_refused() {
    let mut a = End::asking();
    let mut p = End::asked(&a);
    assert_eq!(p.destroy(), [SidrAction::Send]);
    let mad = p.it.datagram().clone();
    assert_eq!(mad.message::<SidrRep>().status, sidr_status::REJECTED);
    assert_eq!(p.wait(), [SidrAction::Free]);
    // It takes the answer, and tells nobody; or waits for it in vain, and does not ask again.
    let mut other = End::asking();
    assert_eq!(a.destroy(), []);
    assert_eq!(a.hear(&mad, 0), [SidrAction::Free]);
    assert_eq!(a.it.deadline(), None);
    assert_eq!(a.hear(&mad, 0), []);
    assert_eq!(other.destroy(), []);
    assert_eq!(other.wait(), [SidrAction::Free]);
    assert_eq!(
        a.step(ask(&question(), &path(0))),
        Err(Refusal::Invalid),
        "nobody is there any more"
    );
}

#[test]
fn orders_that_do_not_fit_change_nothing() {
    let mut a = End::asking();
    let mut p = End::asked(&a);
    let before = (a.it.clone(), p.it.clone());
    assert_eq!(a.step(ask(&question(), &path(1))), Err(Refusal::Busy));
    assert_eq!(a.answer(&ANSWER), Err(Refusal::Invalid));
    assert_eq!(p.step(ask(&question(), &path(1))), Err(Refusal::Invalid));
    assert_eq!(before, (a.it.clone(), p.it.clone()));
    p.answer(&ANSWER).unwrap();
    assert_eq!(p.answer(&ANSWER), Err(Refusal::Invalid));
    assert_eq!(p.step(ask(&question(), &path(1))), Err(Refusal::Invalid));
}

#[test]
fn an_answer_must_be_to_this_question_and_from_the_peer() {
    let mut a = End::asking();
    let mut p = End::asked(&a);
    p.answer(&ANSWER).unwrap();
    let right = p.it.datagram().clone();
    assert_eq!(a.hear(&right, 1), [], "from another port");
    for (place, what) in [(8, "transaction"), (24, "request")] {
        let mut bytes = *right.as_bytes();
        bytes[place] ^= 1;
        assert_eq!(a.hear(Cm::from_bytes(&bytes), 0), [], "of another {what}");
    }
    let mut other = right.clone();
    other = {
        let mut mad = Cm::new(attr::REP, other.tid());
        mad.data_mut().copy_from_slice(other.data());
        mad
    };
    assert_eq!(a.hear(&other, 0), [], "another message");
    assert_eq!(a.it.state(), SidrState::Asking);
    assert_eq!(a.hear(&right, 0).len(), 1);
}

#[test]
fn questions_have_names() {
    let mut a = End::asking();
    let first = a.it.datagram().clone();
    let name = SidrKey::new(&first, &source(true, 0));
    a.wait();
    assert_eq!(SidrKey::new(a.it.datagram(), &source(true, 0)), name);
    assert_ne!(SidrKey::new(&first, &source(true, 1)), name);
    let mut p = End::asked(&a);
    p.answer(&ANSWER).unwrap();
    a.hear(p.it.datagram(), 0);
    a.step(ask(&question(), &path(0))).unwrap();
    assert_ne!(SidrKey::new(a.it.datagram(), &source(true, 0)), name);
}

#[test]
fn an_hca_goes() {
    let mut a = End::asking();
    let mut p = End::asked(&a);
    let gone = vec![SidrAction::Tell(SidrNotice::Removed), SidrAction::Free];
    assert_eq!(a.step(SidrEvent::Gone), Ok(gone.clone()));
    assert_eq!(p.step(SidrEvent::Gone), Ok(gone));
    assert_eq!((a.it.deadline(), p.it.deadline()), (None, None));
}

proptest! {
    #[test]
    fn anything_may_come(
        acts in proptest::collection::vec((0..9u8, any::<u8>(), 0..256usize, any::<u8>()), 0..60),
        of_active in any::<bool>(),
    ) {
        let mut end = End::asking();
        if !of_active {
            end = End::asked(&end);
        }
        let mut seen = vec![end.it.datagram().clone()];
        let mut open = i32::from(of_active);
        let mut is_orphan = false;
        for (act, which, place, byte) in acts {
            let mut mad = seen[usize::from(which) % seen.len()].clone();
            if act == 0 {
                let mut bytes = *mad.as_bytes();
                bytes[place] = byte;
                mad = Cm::from_bytes(&bytes).clone();
            }
            let (req, way) = (question(), path(0));
            let done = match act {
                0..=3 => end.step(SidrEvent::Received(&mad, source(which & 1 == 0, which & 2))),
                4 => match end.it.deadline() {
                    Some(_) => Ok(end.wait()),
                    None => Ok(vec![]),
                },
                5 => {
                    let asked = end.step(ask(&req, &way));
                    open += i32::from(asked.is_ok());
                    asked
                }
                6 => end.answer(&SidrAnswer { status: which, ..ANSWER }),
                7 => end.step(SidrEvent::Tick),
                _ if which < 16 => {
                    is_orphan = true;
                    Ok(end.destroy())
                }
                _ => Ok(vec![]),
            };
            for action in done.unwrap_or_default() {
                match action {
                    SidrAction::Send => seen.push(end.it.datagram().clone()),
                    SidrAction::Tell(_) => {
                        prop_assert!(!is_orphan);
                        open -= 1;
                    }
                    SidrAction::Free => prop_assert_eq!(end.it.deadline(), None),
                }
            }
            // Each question that is asked has one end, and there is one at a time.
            prop_assert!(is_orphan || open == i32::from(end.it.state() == SidrState::Asking));
        }
    }
}
