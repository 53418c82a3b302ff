// SPDX-License-Identifier: GPL-2.0

//! The completion ledger: random traffic of reliable connections comes to a random end, and every work request
//! that was accepted is accounted for.

use crate::host::MEMORY_KEY;
use crate::world::{
    wqe,
    Dice,
    Faults,
    World, //
};
use proto::transport::{
    QpState,
    QpType,
    SendOp,
    WcStatus, //
};
use std::collections::BTreeMap;
use std::env;
use wire::Key;

/// How many work requests are accounted for at least. The variable of the environment says another number.
const WORK_REQUESTS: usize = 1_000_000;
const WORK_REQUESTS_VARIABLE: &str = "SIB_LEDGER";

/// Bytes that a receive has room for.
const ROOM: usize = 2000;

/// What puts an end to the queue pair of the first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    ModifyToError,
    /// As the driver does it when a completion queue overruns, an SRQ breaks or the device goes.
    DriverError,
    Reset,
    PeerKilled,
    PeerReset,
    /// Nothing arrives any more, on either side.
    Silence,
    /// No receive is posted any more.
    NotReady,
    BadKey,
    BadBuffers,
    TooLong,
}

/// All ends, with the status that is the first one to fail in at least some cases of each.
const ENDS: [(End, WcStatus); 10] = [
    (End::ModifyToError, WcStatus::WrFlushErr),
    (End::DriverError, WcStatus::WrFlushErr),
    (End::Reset, WcStatus::Success),
    (End::PeerKilled, WcStatus::RetryExcErr),
    (End::PeerReset, WcStatus::RetryExcErr),
    (End::Silence, WcStatus::RetryExcErr),
    (End::NotReady, WcStatus::RnrRetryExcErr),
    (End::BadKey, WcStatus::RemAccessErr),
    (End::BadBuffers, WcStatus::LocProtErr),
    (End::TooLong, WcStatus::RemInvReqErr),
];

impl End {
    /// Whether the last word of the connection is waited for, which comes by itself.
    fn comes_to_rest(self) -> bool {
        matches!(
            self,
            Self::PeerKilled | Self::PeerReset | Self::Silence | Self::NotReady
        )
    }
}

const OPS: [SendOp; 8] = [
    SendOp::Send,
    SendOp::SendImm,
    SendOp::SendInv,
    SendOp::Write,
    SendOp::WriteImm,
    SendOp::Read,
    SendOp::FetchAdd,
    SendOp::CompareSwap,
];

/// Every work request that was accepted ends exactly once, in order; after the first error there are flushes
/// only; and nobody but a successful unsignalled one is silent. Returns the first error of the send queue.
pub(crate) fn audit(world: &World, node: usize, posted: &[bool]) -> WcStatus {
    let host = &world.nodes[node].host;
    assert_eq!(host.retired.len(), posted.len());
    let first_error = host
        .sent
        .iter()
        .position(|wc| wc.status != WcStatus::Success);
    let (good, bad) = host.sent.split_at(first_error.unwrap_or(host.sent.len()));
    let ok = bad.first().map_or(posted.len(), |wc| wc.wr_id as usize);
    let signaled: Vec<u64> = (0..ok).filter(|&i| posted[i]).map(|i| i as u64).collect();
    assert_eq!(good.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), signaled);
    let rest: Vec<u64> = (ok as u64..posted.len() as u64).collect();
    assert_eq!(bad.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), rest);
    assert!(bad
        .iter()
        .skip(1)
        .all(|wc| wc.status == WcStatus::WrFlushErr));

    let slots: Vec<u32> = host.received.iter().map(|(slot, _)| slot.0).collect();
    assert_eq!(
        slots,
        (0..host.recv_buffers.len() as u32).collect::<Vec<_>>()
    );
    let errors = host.received.iter().map(|(_, wc)| wc.status);
    let errors: Vec<_> = errors.skip_while(|&s| s == WcStatus::Success).collect();
    assert!(errors.iter().skip(1).all(|&s| s == WcStatus::WrFlushErr));
    bad.first().map_or(WcStatus::Success, |wc| wc.status)
}

/// A connection whose work requests are kept account of.
struct Account {
    world: World,
    end: End,
    /// Whether each send was signaled, by node.
    posted: [Vec<bool>; 2],
}

impl Account {
    fn new(end: End, seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x1ed9e5);
        let faults = Faults {
            drop_percent: dice.below(10) as u8,
            duplicate_percent: 3,
            reorder_percent: dice.below(30) as u8,
            cut_percent: 20,
            absent_percent: 10,
            away_percent: [0, 10][dice.below(2) as usize],
            away_nanos: 20_000_000,
            longest_span: 6,
            pace_nanos: 0,
            stall_percent: [0, 10][dice.below(2) as usize],
        };
        let mut world = World::new(QpType::Rc, 1 << 14, faults, seed);
        if end == End::NotReady {
            for node in &mut world.nodes {
                node.qp.config_mut().rnr_retry = 1;
            }
        }
        Self {
            world,
            end,
            posted: [Vec::new(), Vec::new()],
        }
    }

    fn takes_work(&self, node: usize) -> bool {
        self.world.nodes[node].qp.state() != QpState::Reset
    }

    fn send(&mut self, node: usize, op: SendOp, len: usize, rkey: Key) {
        let world = &mut self.world;
        if world.nodes[node].qp.send_space() == 0 {
            return;
        }
        let mut wqe = wqe(self.posted[node].len() as u64, op, len, 0);
        wqe.rkey = rkey;
        wqe.flags.signaled = world.dice.percent(50);
        wqe.flags.fence = world.dice.percent(20);
        self.posted[node].push(wqe.flags.signaled);
        world.nodes[node].post(wqe, vec![1; len.max(8)]);
    }

    fn post_some(&mut self, node: usize, with_recvs: bool) {
        if self.takes_work(node) && self.world.dice.percent(60) {
            let op = OPS[self.world.dice.below(OPS.len() as u64) as usize];
            let most = if self.world.dice.percent(10) {
                ROOM
            } else {
                300
            };
            let len = self.world.dice.below(most as u64) as usize;
            self.send(node, op, len, MEMORY_KEY);
        }
        if with_recvs && self.takes_work(node) && self.world.dice.percent(40) {
            let node = &mut self.world.nodes[node];
            node.host.post_recv(ROOM as u32);
            node.flush();
        }
    }

    /// A queue pair that is reset, or whose node is gone, says no more.
    fn silent_from_now_on(&mut self, node: usize) {
        let counts = |world: &World| {
            let host = &world.nodes[node].host;
            (host.sent.len(), host.received.len())
        };
        let before = counts(&self.world);
        for _ in 0..20 {
            self.world.transmit();
            self.world.step();
        }
        assert_eq!(before, counts(&self.world));
    }

    fn bring_about(&mut self) {
        let wrong_key = Key::new(MEMORY_KEY.get() ^ 1);
        match self.end {
            End::ModifyToError => self.world.nodes[0].go(QpState::Err),
            End::DriverError => {
                let node = &mut self.world.nodes[0];
                node.qp.to_error(&mut node.host);
            }
            End::Reset => {
                self.world.nodes[0].go(QpState::Reset);
                self.silent_from_now_on(0);
            }
            End::PeerKilled => self.world.kill(1),
            End::PeerReset => {
                self.world.nodes[1].go(QpState::Reset);
                self.silent_from_now_on(1);
            }
            End::Silence => self.world.faults.drop_percent = 100,
            End::NotReady => {}
            End::BadKey => self.send(0, SendOp::Write, 100, wrong_key),
            End::BadBuffers => self.world.nodes[0].host.bad_buffers = true,
            End::TooLong => self.send(0, SendOp::Send, ROOM + 1, MEMORY_KEY),
        }
    }

    /// Runs the case; how many work requests it had, and what the first node's first one to fail failed with.
    fn run(mut self) -> (usize, WcStatus) {
        let steps = self.world.dice.below(200);
        for step in 0..steps + 100 {
            for node in 0..2 {
                let with_recvs = self.end != End::NotReady || step < steps;
                self.post_some(node, with_recvs);
            }
            self.world.transmit();
            self.world.step();
            if step == steps {
                self.bring_about();
            }
        }
        if self.end.comes_to_rest() {
            self.world.run();
        }
        let mut first = WcStatus::Success;
        for node in 0..2 {
            if !self.takes_work(node) {
                continue;
            }
            let end = &mut self.world.nodes[node];
            end.qp.to_error(&mut end.host);
            assert!(!end.qp.transmitted(&mut end.host));
            assert_eq!(end.qp.next_deadline(), None);
            let status = audit(&self.world, node, &self.posted[node]);
            if node == 0 {
                first = status;
            }
        }
        let recvs = self.world.nodes.iter().map(|n| n.host.recv_buffers.len());
        let sends = self.posted.iter().map(Vec::len);
        (sends.chain(recvs).sum(), first)
    }
}

#[test]
fn the_ledger_balances() {
    let wanted = env::var(WORK_REQUESTS_VARIABLE).map_or(WORK_REQUESTS, |text| {
        text.parse().expect(WORK_REQUESTS_VARIABLE)
    });
    let mut total = 0;
    let mut cases = 0;
    let mut seen: BTreeMap<End, [usize; 2]> = BTreeMap::new();
    while total < wanted {
        let (end, status) = ENDS[cases % ENDS.len()];
        cases += 1;
        // Shown if the case fails.
        println!("case {cases}: {end:?}");
        let (count, first) = Account::new(end, cases as u64).run();
        total += count;
        let [all, due] = seen.entry(end).or_default();
        *all += 1;
        *due += usize::from(first == status);
    }
    println!("{total} work requests in {cases} cases; of each end, cases and cases with its status: {seen:?}");
    for (end, status) in ENDS {
        assert!(
            seen.get(&end).is_some_and(|&[_, due]| due > 0),
            "{end:?} has never led to {status:?}"
        );
    }
}
