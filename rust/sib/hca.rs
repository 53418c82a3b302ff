// SPDX-License-Identifier: GPL-2.0

//! A host channel adapter: what all verbs, the management agents and the fabric share.

use crate::breaks::Breaks;
use crate::convoy::Convoy;
use crate::counters::Counters;
use crate::debug;
use crate::fabric::{
    Berth,
    Captures,
    Fabric,
    Faults,
    Traffic, //
};
use crate::guid::HcaGuids;
use crate::mad::Orders;
use crate::mcast::Groups;
use crate::qp::{
    Qp,
    Room, //
};
use crate::query;
use crate::quota::Allowance;
use crate::rail::{
    Rail,
    Rails, //
};
use crate::registry::{
    Lease,
    Ticket, //
};
use crate::relief::Relief;
use crate::table::{
    QpnLayout,
    Table, //
};
use kernel::cpu::CpuId;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{
    Arc,
    Mutex, //
};
use proto::fabric::link::LinkState;
use proto::fabric::sma::{
    self,
    HcaPort, //
};
use proto::fabric::switch::Identity;
use proto::fabric::tables::GUIDS;
use rdma::ib::DeviceUpcall;
use rdma::sync::{
    Atomic,
    Cx,
    DevLock,
    Held,
    LevelLock,
    Sleepable,
    Unlocked, //
};
use rdma::timer::Timer;
use rdma::work::{
    Queue,
    Run,
    Softirq,
    Work, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    Mtu,
    PortNum, //
};

/// The largest number of ports of one HCA.
pub(crate) const MAX_PORTS: u8 = 8;

/// The management agents of an HCA, with all attributes of its ports.
pub(crate) type Sma = sma::Hca<KVec<HcaPort>>;

/// What the lock of an HCA guards.
pub(crate) struct HcaState {
    /// The attributes of all ports.
    pub(crate) sma: Sma,
    /// The queue pairs by number, but for those in [`Self::special`].
    pub(crate) qps: Table<Held<Qp>, QpnLayout>,
    /// QP0 and QP1 of each port.
    pub(crate) special: [[Option<Held<Qp>>; 2]; MAX_PORTS as usize],
    /// The multicast groups.
    pub(crate) mcast: Groups,
    /// What management has ordered for the links.
    pub(crate) orders: Orders,
    /// Where the ports hang that have been moved.
    pub(crate) rails: [Option<Held<Rail>>; MAX_PORTS as usize],
}

/// A host channel adapter.
///
/// Owned by its `ib_device`; tables, timers and packets on their way have a [`Held`].
#[pin_data]
pub(crate) struct Hca {
    /// Where its ports hang, but for those that have been moved.
    pub(crate) fabric: Arc<Fabric>,
    /// Its lease of the fabric.
    pub(crate) ticket: Ticket,
    /// Its place there.
    pub(crate) berth: Berth,
    /// Its names.
    pub(crate) guids: HcaGuids,
    /// ib_cm is kept off it.
    pub(crate) is_dedicated: bool,
    /// Nothing that management asks for is answered, as no client has it: see [`crate::mad`].
    pub(crate) is_silent: Atomic<bool>,
    /// It goes, and queue pairs of programs do not get into use any more.
    is_ending: Atomic<bool>,
    /// What is too long for the context where it is found to be due.
    pub(crate) queue: Queue,
    /// What waits for memory of users, which may take long, and take what the queue above is needed for.
    pub(crate) memory: Queue,
    /// What the segments take that wait for memory or keys.
    pub(crate) waiting: Arc<Room>,
    /// Its protection domains.
    pub(crate) pds: Allowance,
    /// Its completion queues.
    pub(crate) cqs: Allowance,
    /// Its shared receive queues.
    pub(crate) srqs: Allowance,
    /// Its memory regions.
    pub(crate) mrs: Allowance,
    /// Its memory windows.
    pub(crate) mws: Allowance,
    /// Its address handles of programs.
    pub(crate) ahs: Allowance,
    /// Those that send together.
    #[pin]
    pub(crate) convoy: Convoy,
    /// Those that another processor transmits for.
    #[pin]
    pub(crate) relief: Relief,
    port_views: [PortView; MAX_PORTS as usize],
    /// How its queue pairs get to know of queues in error.
    #[pin]
    pub(crate) breaks: Breaks,
    /// The way to tell ib_core of events.
    pub(crate) upcall: DeviceUpcall,
    /// Everything that changes.
    #[pin]
    pub(crate) state: LevelLock<HcaState, DevLock>,
    /// Expires when an order is to be carried out or a trap to be sent: see [`crate::mad`].
    #[pin]
    pub(crate) clock: Timer<Hca>,
    /// What is done to packets on purpose.
    #[pin]
    pub(crate) faults: LevelLock<Faults, DevLock>,
    /// Packets that are kept for a reader.
    #[pin]
    pub(crate) captures: LevelLock<Captures, DevLock>,
    /// Expires when a packet that was held is due.
    #[pin]
    pub(crate) fault_clock: Timer<Hca, 1>,
    /// What stands in debugfs.
    #[pin]
    pub(crate) debug: Mutex<Option<debug::Files>>,
    /// The ports that have been moved, as bits: a hint for who has not locked [`Self::state`].
    pub(crate) away: Atomic<u32>,
    /// Those of [`HcaState::rails`].
    #[pin]
    pub(crate) rails: Mutex<Rails>,
}

impl Hca {
    /// Has a work item of `hca` run in a softirq of `cpu`; false if `hca` has more holders than can be counted.
    pub(crate) fn work_on<const ID: u64>(
        hca: &Held<Self>,
        queue: &Queue<Softirq>,
        work: &Work<Self, ID, Softirq>,
        cpu: CpuId,
    ) -> bool
    where
        Self: Run<ID, Softirq, Pointer = Held<Self>>,
    {
        let held = hca.try_clone();
        // An item that is queued already is as good.
        held.is_some_and(|hca| {
            let _ = queue.enqueue_on(cpu, work, hca);
            true
        })
    }

    /// An initialiser of an HCA with all ports down.
    pub(crate) fn new(
        lease: &Lease,
        berth: Berth,
        description: [u8; 64],
        is_dedicated: bool,
        upcall: DeviceUpcall,
        sleepable: Sleepable<'_>,
    ) -> Result<impl PinInit<Self, Error>> {
        let fabric = lease.fabric.clone();
        let ticket = lease.ticket;
        let guids = fabric.base().hca(berth.number());
        let identity = Identity {
            node: guids.node(),
            system: guids.system_image(),
            vendor: query::VENDOR,
            device: query::HCA_DEVICE,
            revision: query::REVISION,
            description,
        };
        let mut ports = KVec::with_capacity(usize::from(berth.ports()), GFP_KERNEL)?;
        for port in 1..=berth.ports() {
            ports.push(HcaPort::new(guids.port(port), fabric.mtu()), GFP_KERNEL)?;
        }
        let queue = Queue::new(c"sib", sleepable)?;
        let memory = Queue::slow_here(c"sib_memory", sleepable)?;
        let convoy = Convoy::new(sleepable)?;
        let relief = Relief::new(sleepable)?;
        let waiting = Arc::new(Room::new(), GFP_KERNEL)?;
        let faults = Faults::new(berth.ports())?;
        let captures = Captures::new(berth.ports())?;
        // Too large to be made on the stack.
        let state = try_init!(HcaState {
            sma: Sma::new(identity, ports),
            qps: Table::new(),
            special: [const { [const { None }; 2] }; MAX_PORTS as usize],
            mcast: Groups::new(),
            orders: Orders::default(),
            rails: [const { None }; MAX_PORTS as usize],
        }? Error);
        Ok(try_pin_init!(Self {
            fabric,
            ticket,
            berth,
            guids,
            is_dedicated,
            is_silent: Atomic::new(true),
            is_ending: Atomic::new(false),
            queue,
            memory,
            waiting,
            pds: Allowance::new(query::MAX_PD)?,
            cqs: Allowance::new(query::MAX_CQ)?,
            srqs: Allowance::new(query::MAX_SRQ)?,
            mrs: Allowance::new(query::MAX_MR)?,
            mws: Allowance::new(query::MAX_MW)?,
            ahs: Allowance::new(query::MAX_AH)?,
            convoy <- convoy,
            relief <- relief,
            breaks <- Breaks::new(),
            upcall,
            port_views: [const { PortView::new() }; MAX_PORTS as usize],
            state <- LevelLock::new(state),
            clock <- Timer::new(),
            faults <- LevelLock::new(faults),
            captures <- LevelLock::new(captures),
            fault_clock <- Timer::new(),
            debug <- new_mutex!(None, "Hca::debug"),
            away: Atomic::new(0),
            rails <- new_mutex!(Rails::new(), "Hca::rails"),
        }? Error))
    }

    /// Has queue pairs of programs not get into use any more. Who looks at one of them, locked, afterwards finds it out
    /// of use, or flushes it.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    /// Whether [`end`](Self::end) has come before the queue pair that is locked was looked at for it.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// The number of ports.
    pub(crate) fn ports(&self) -> u8 {
        self.berth.ports()
    }

    /// What the data path has to know of a port; down if there is no such port. Takes no lock, and may lag
    /// behind a change that is going on.
    pub(crate) fn view(&self, port: PortNum) -> View {
        self.view_of(port).map_or(View::DOWN, PortView::load)
    }

    /// An entry of the GID table of `port`; `None` past the end, and if there is no such port. Takes no lock, and may lag
    /// behind a change that is going on. All zero before the port had a link for the first time.
    pub(crate) fn gid(&self, port: PortNum, index: u8) -> Option<Gid> {
        self.view_of(port)?.gids.get(index)
    }

    /// Publishes what has changed of `port`. To be called under the lock of the HCA, after every call into
    /// its agents that may change a port.
    pub(crate) fn publish(&self, state: &HcaState, port: PortNum) {
        if let (Some(view), Some(hca_port)) = (self.view_of(port), state.sma.port(port)) {
            view.gids.store(hca_port);
            let attrs = hca_port.attrs();
            let changed = view.store(View {
                lid: attrs.lid(),
                lmc: attrs.lmc(),
                mtu: attrs.neighbor_mtu(),
                state: attrs.state(),
            });
            if changed {
                self.fabric_of(state, port).new_generation();
            }
        }
    }

    /// What has passed `port` since the agents last heard of it.
    pub(crate) fn traffic(&self, port: PortNum) -> Option<&Traffic> {
        Some(&self.view_of(port)?.traffic)
    }

    /// What has happened at `port`, beside what the agents count.
    pub(crate) fn counters(&self, port: PortNum) -> Option<&Counters> {
        Some(&self.view_of(port)?.counters)
    }

    /// Whether `tap` is on `port`.
    #[inline]
    pub(crate) fn is_tapped(&self, port: PortNum, tap: Tap) -> bool {
        self.view_of(port)
            .is_some_and(|view| view.taps.load(Relaxed) & tap as u32 != 0)
    }

    /// Whether anything looks at the packets of `port`, which then have to pass it one by one.
    pub(crate) fn is_watched(&self, port: PortNum) -> bool {
        self.view_of(port)
            .is_some_and(|view| view.taps.load(Relaxed) != 0)
    }

    /// Puts `tap` on `port`, or takes it off.
    pub(crate) fn set_tap(&self, port: PortNum, tap: Tap, on: bool) {
        if let Some(view) = self.view_of(port) {
            let bit = tap as u32;
            let mut old = view.taps.load(Relaxed);
            loop {
                let new = if on { old | bit } else { old & !bit };
                match view.taps.cmpxchg(old, new, Relaxed) {
                    Ok(_) => break,
                    Err(present) => old = present,
                }
            }
        }
    }

    /// Has everybody look at the taps of `port` again. To be called after [`Self::set_tap`].
    pub(crate) fn retap(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum) {
        let state = cx.lock(&self.state);
        self.fabric_of(&state, port).new_generation();
    }

    fn view_of(&self, port: PortNum) -> Option<&PortView> {
        self.port_views.get(usize::from(port.get()).checked_sub(1)?)
    }
}

/// A port as the data path sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The base LID.
    pub(crate) lid: Lid,
    /// The port has `1 << lmc` LIDs.
    pub(crate) lmc: u8,
    /// The largest payload of a packet.
    pub(crate) mtu: Mtu,
    /// The logical state.
    pub(crate) state: LinkState,
}

impl View {
    /// A port that is not there.
    const DOWN: Self = Self {
        lid: Lid::NONE,
        lmc: 0,
        mtu: Mtu::B256,
        state: LinkState::Down,
    };

    /// Whether `dlid` is one of the port's LIDs.
    pub(crate) fn owns(&self, dlid: Lid) -> bool {
        self.lid.is_unicast() && dlid.is_path_of(self.lid, self.lmc)
    }

    /// Whether a packet to `dlid` is for the port: by its LID, to a multicast group, or, for subnet management on
    /// virtual lane 15, to whoever gets it (IBA chapter 7, the check of the DLID).
    pub(crate) fn takes(&self, dlid: Lid, vl15: bool) -> bool {
        self.owns(dlid)
            || if vl15 {
                dlid == Lid::PERMISSIVE
            } else {
                dlid.is_multicast()
            }
    }
}

/// What may look at the packets of a port, as bits of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tap {
    /// Rules for packets that leave.
    FaultsOut = 1,
    /// Rules for packets that arrive.
    FaultsIn = 2,
    /// Packets are kept for a reader.
    Capture = 4,
}

/// What is known of a port without a lock.
struct PortView {
    /// A [`View`] in one word: the LID in bits 31:16, then 4 bits each for LMC, MTU and state.
    word: Atomic<u32>,
    /// The [`Tap`]s that are on.
    taps: Atomic<u32>,
    gids: Gids,
    traffic: Traffic,
    counters: Counters,
}

/// The GID table of a port: both halves of each entry. Who reads one that changes may get halves of the old and of the new.
struct Gids([[Atomic<u64>; 2]; GUIDS]);

impl Gids {
    const fn new() -> Self {
        Self([const { [const { Atomic::new(0) }; 2] }; GUIDS])
    }

    fn store(&self, port: &HcaPort) {
        for (entry, index) in self.0.iter().zip(0..) {
            let gid = port.gid(index).unwrap_or(Gid::ZERO);
            for (half, new) in entry.iter().zip([gid.prefix(), gid.guid().get()]) {
                half.store(new, Relaxed);
            }
        }
    }

    fn get(&self, index: u8) -> Option<Gid> {
        let [prefix, guid] = self.0.get(usize::from(index))?;
        let guid = Guid::new(guid.load(Relaxed));
        Some(Gid::from_parts(prefix.load(Relaxed), guid))
    }
}

const LID_SHIFT: u32 = 16;
const LMC_SHIFT: u32 = 8;
const MTU_SHIFT: u32 = 4;
const NIBBLE: u32 = 0xf;

impl PortView {
    const fn new() -> Self {
        Self {
            word: Atomic::new(0),
            taps: Atomic::new(0),
            gids: Gids::new(),
            traffic: Traffic::new(),
            counters: Counters::new(),
        }
    }

    /// Returns whether this changes anything.
    fn store(&self, view: View) -> bool {
        let word = u32::from(view.lid.get()) << LID_SHIFT
            | u32::from(view.lmc) << LMC_SHIFT
            | u32::from(view.mtu.code()) << MTU_SHIFT
            | view.state as u32;
        self.word.xchg(word, Relaxed) != word
    }

    fn load(&self) -> View {
        let word = self.word.load(Relaxed);
        View {
            lid: Lid::new((word >> LID_SHIFT) as u16),
            lmc: (word >> LMC_SHIFT & NIBBLE) as u8,
            mtu: Mtu::from_code((word >> MTU_SHIFT & NIBBLE) as u8).unwrap_or_default(),
            state: match word & NIBBLE {
                2 => LinkState::Init,
                3 => LinkState::Armed,
                4 => LinkState::Active,
                _ => LinkState::Down,
            },
        }
    }
}
