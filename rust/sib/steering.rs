// SPDX-License-Identifier: GPL-2.0

//! Messages that one processor posts and another one sends.
//!
//! Where the receiver is in the same kernel, it works on the processor that sends, and most of the work is his: then a
//! task that posts as fast as it can is held up by what it has sent. So what such a task posts is handed to another
//! processor. The task goes on to post the next message, and both work at once. Small messages are handed over as a
//! [convoy](crate::convoy) that the task has filled alone. One that several tasks have filled is sent where it is: they
//! use several processors already.
//!
//! To hand a message over takes as long as to send tens of kilobytes. Who waits for each of his messages never has them
//! handed over: see [`crate::pace`].
//!
//! The peer of such a task is told so by a [flag](wire::outer::HURRIED) in each request. What he answers at length he
//! leaves to another processor as well: the answers to RDMA READ are built on one, and received on the other.
//!
//! What a queue pair sends must not overtake what it has sent before, which may wait on the other processor. So all its
//! requests go the same way, whoever sends them, until none was handed over for a [while](HOLD), no others are posted
//! already, and all are acknowledged. Nobody acknowledges answers, and one that is overtaken is asked for again: they
//! change their way after a while, or with the processor that receives the requests.

use crate::fabric;
use kernel::cpu::CpuId;
use proto::time::{
    Duration,
    Instant, //
};
use rdma::work::other_cpu;

/// How long a processor goes on after the last thing that was handed over to it.
pub(crate) const HOLD: Duration = Duration::from_millis(20);

/// Which processor sends, and how long it is to go on with it.
#[derive(Clone, Copy)]
pub(crate) struct Steering {
    cpu: CpuId,
    until: Instant,
}

impl Steering {
    /// The same one for another while, or one to another processor if it is over or there was none.
    ///
    /// `None` if there is no other processor, or the task has come to that one: then it ends, before there is another.
    pub(crate) fn renewed(last: Option<Self>) -> Option<Self> {
        let now = fabric::now();
        let cpu = last
            .filter(|steering| now < steering.until)
            .map(|steering| steering.cpu)
            .or_else(other_cpu)?;
        (cpu != CpuId::current()).then_some(Self {
            cpu,
            until: now.after(HOLD),
        })
    }

    /// The processor.
    pub(crate) fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Whether nobody has renewed it in time.
    fn is_over(&self) -> bool {
        self.until < fabric::now()
    }
}

/// Who sends for a reliable connection.
#[derive(Default)]
pub(crate) struct Course {
    requests: Option<Steering>,
    /// For the next request.
    offered: Option<Steering>,
    /// The task has come to the processor that sends: that is to end, whatever is posted already.
    ends: bool,
    answers: Option<Steering>,
}

impl Course {
    /// Another processor may send the next request.
    pub(crate) fn offer(&mut self) {
        self.offered = Steering::renewed(self.requests);
        self.ends = self.offered.is_none();
    }

    /// An answer has come, and who has posted more has not waited for it: the next request goes the same way, however
    /// long ago it was posted.
    pub(crate) fn go_on(&mut self) {
        if self.ends {
            return;
        }
        let renewed = |last| Steering {
            until: fabric::now().after(HOLD),
            ..last
        };
        self.offered = self.offered.or_else(|| self.requests.map(renewed));
    }

    /// The processor that sends a request, if that is another one. A convoy may have `offered` one; `alone` says that
    /// all requests before it are acknowledged.
    ///
    /// What is not may still wait for a processor, and is not to be overtaken by requests that another one sends.
    pub(crate) fn of_request(&mut self, offered: Option<Steering>, alone: bool) -> Option<CpuId> {
        if alone {
            self.requests = current(self.requests);
        }
        let fits = |new: &Steering| {
            let goes_on = |old: Steering| old.cpu == new.cpu;
            alone || self.requests.is_none_or(goes_on)
        };
        let offered = offered.or(self.offered.take());
        self.requests = offered.filter(fits).or(self.requests);
        self.of_requests()
    }

    /// The processor that sends requests, if that is another one.
    pub(crate) fn of_requests(&self) -> Option<CpuId> {
        Some(self.requests?.cpu)
    }

    /// The processor that sends an answer, if that is another one; `hurried` says that the peer has not waited for it
    /// before it asked for more.
    pub(crate) fn of_answer(&mut self, hurried: bool) -> Option<CpuId> {
        let renewed = match hurried {
            true => Steering::renewed(self.answers),
            false => None,
        };
        self.answers = renewed.or_else(|| current(self.answers));
        Some(self.answers?.cpu)
    }
}

/// What is not over.
fn current(steering: Option<Steering>) -> Option<Steering> {
    steering.filter(|steering| !steering.is_over())
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_steering)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    const LONG: Duration = Duration::from_millis(3_600_000);

    fn cpu(number: u32) -> Result<CpuId> {
        CpuId::from_u32(number).ok_or(ENODEV)
    }

    fn steering(number: u32) -> Result<Steering> {
        Ok(Steering {
            cpu: cpu(number)?,
            until: fabric::now().after(LONG),
        })
    }

    fn over(number: u32) -> Result<Steering> {
        Ok(Steering {
            until: Instant::from_nanos(0),
            ..steering(number)?
        })
    }

    #[test]
    fn what_is_posted_already_goes_on() -> Result {
        let mut course = Course {
            requests: Some(over(1)?),
            ..Course::default()
        };
        course.go_on();
        assert_eq!(course.of_request(None, true), Some(cpu(1)?));
        assert_eq!(course.of_request(None, true), Some(cpu(1)?));
        Ok(())
    }

    #[test]
    fn what_is_to_end_does_not_go_on() -> Result {
        let mut course = Course {
            requests: Some(over(1)?),
            ends: true,
            ..Course::default()
        };
        course.go_on();
        assert_eq!(course.of_request(None, true), None);
        Ok(())
    }

    #[test]
    fn requests_do_not_overtake_what_is_not_acknowledged() -> Result {
        let (zero, one) = (Some(cpu(0)?), Some(cpu(1)?));
        let mut course = Course::default();
        assert_eq!(course.of_request(None, true), None);
        assert_eq!(course.of_request(Some(steering(0)?), false), zero);
        assert_eq!(course.of_request(Some(steering(1)?), false), zero);
        assert_eq!(course.of_request(None, true), zero);
        assert_eq!(course.of_request(Some(steering(1)?), true), one);
        course.requests = Some(over(1)?);
        assert_eq!(course.of_request(None, false), one);
        assert_eq!(course.of_request(None, true), None);
        Ok(())
    }

    #[test]
    fn what_is_offered_counts_once() -> Result {
        let mut course = Course {
            offered: Some(over(0)?),
            ..Course::default()
        };
        assert_eq!(course.of_request(None, true), Some(cpu(0)?));
        assert_eq!(course.of_request(None, true), None);
        Ok(())
    }

    #[test]
    fn answers_go_on_for_a_while() -> Result {
        let mut course = Course {
            answers: Some(steering(1)?),
            ..Course::default()
        };
        assert_eq!(course.of_answer(false), Some(cpu(1)?));
        assert_eq!(course.of_request(None, true), None);
        course.answers = Some(over(1)?);
        assert_eq!(course.of_answer(false), None);
        Ok(())
    }
}
