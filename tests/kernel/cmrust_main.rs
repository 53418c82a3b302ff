// SPDX-License-Identifier: GPL-2.0

//! A client of the kernel API of `sib_cm` in Rust: connects two queue pairs of the first two HCAs, loads an alternate
//! path by LAP and APR, goes over to it, and ends the connection; refuses; asks for queue pairs; and lets go of
//! identifiers in each state, and while their handler gives orders.
//!
//! ```text
//! modprobe cmrust [hold=1]
//! ```
//!
//! With hold=1 it stays, with a connection, until it or an HCA is removed.

use core::ptr::NonNull;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    Arc,
    ArcBorrow,
    CondVar,
    CondVarTimeoutResult,
    Mutex, //
};
use kernel::time::delay::fsleep;
use kernel::time::{
    msecs_to_jiffies,
    Delta, //
};
use kernel::{
    new_condvar,
    new_mutex, //
};
use sib_cm::{
    ap_status,
    errno,
    reason,
    Apr,
    Client,
    CmId,
    Device,
    Event,
    Handler,
    Id,
    Kind,
    Lap,
    Newcomer,
    Path,
    Qp,
    QpState,
    Registration,
    Rej,
    Rep,
    Req,
    ReqReceived,
    SidrRep,
    SidrReq,
    SidrReqReceived,
    SidrStatus,
    State, //
};

module! {
    type: CmRust,
    name: "cmrust",
    authors: ["The sib authors"],
    description: "Test of the kernel API of sib_cm in Rust",
    license: "GPL",
    params: {
        hold: u8 {
            default: 0,
            description: "1: stay with a connection",
        },
    },
}

const SERVICE: u64 = 0x02ff_0000_0000_5275;
/// Nobody listens there.
const NO_SERVICE: u64 = SERVICE + 1;
/// One of rdma_cm.
const FOREIGN_SERVICE: u64 = 0x0000_0000_0106_0001;
const DUE_MS: u32 = 60_000;
/// Longer than it takes from there on until a handler is waited for.
const LATE_MS: i64 = 100;
const QKEY: u32 = 0x1234_5678;
const ACTIVE: usize = 0;
const PASSIVE: usize = 1;

/// Numbers of queue pairs that are none.
static FAKE_QPN: Atomic<u32> = Atomic::new(0x90_0000);
/// Orders of handlers that have failed.
static FAILURES: Atomic<u32> = Atomic::new(0);

/// Ends a test that has found a fault.
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            pr_err!("line {}: {}\n", line!(), fmt!($($text)+));
            return Err(EIO);
        }
    };
}

unsafe extern "C" {
    fn cmrust_create_qp(device: *mut c_void) -> *mut c_void;
    fn cmrust_destroy_qp(qp: *mut c_void);
}

/// A queue pair, which this owns.
struct Queues(NonNull<c_void>);

// SAFETY: Any task may modify and destroy a queue pair.
unsafe impl Send for Queues {}

impl Queues {
    fn new(device: &Device) -> Result<Self> {
        // SAFETY: The device is registered.
        let qp = unsafe { cmrust_create_qp(device.as_raw().cast()) };
        Ok(Self(NonNull::new(qp).ok_or(ENOMEM)?))
    }

    fn qp(&mut self) -> Qp<'_> {
        // SAFETY: It is destroyed when this is dropped, and nobody modifies it without `self`.
        unsafe { Qp::from_raw(self.0.as_ptr().cast()) }
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // SAFETY: Nobody has a reference to it.
        unsafe { cmrust_destroy_qp(self.0.as_ptr()) };
    }
}

/// What a side has been told.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Req,
    Rep,
    Rtu,
    Rej(u16),
    Dreq,
    Drep,
    TimewaitExit,
    Lap(u32),
    Apr(u8),
    /// The local LID of the path.
    Migrated(u16),
    /// Status, queue pair and Q_Key.
    Sidr(u32, u32, u32),
    Removed,
    /// Nothing that the test wants.
    Other,
}

#[derive(Default)]
struct Inner {
    told: KVec<Told>,
    id: Option<CmId<Side>>,
    listeners: KVec<CmId<Side>>,
    queues: Option<Queues>,
    /// Whether requests are refused.
    refuses: bool,
    /// Whether the handler answers a DREQ, when its identifier is being let go of.
    answers_late: bool,
    answered: Option<Result>,
}

/// An end of connections.
#[pin_data]
struct Side {
    name: &'static str,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    changed: CondVar,
}

impl Handler for Side {
    fn event(this: ArcBorrow<'_, Self>, id: &Id, event: Event<'_>) {
        let inner = this.inner.lock();
        let is_own = inner.id.as_ref().is_some_and(|own| own.is(id));
        let answers_late = inner.answers_late;
        drop(inner);
        // Private data have the length of the field, but for what is not sent by a peer.
        let told = match event {
            Event::RepReceived { private_data, .. } if private_data.starts_with(b"you may\0") => {
                Told::Rep
            }
            Event::RtuReceived { private_data } if private_data.starts_with(b"so\0") => Told::Rtu,
            Event::RejReceived {
                reason: why,
                private_data,
                ..
            } if private_data.starts_with(b"not now\0") => Told::Rej(why),
            Event::RejReceived { reason: why, .. } if why != reason::CONSUMER => Told::Rej(why),
            Event::DreqReceived { private_data } if private_data.starts_with(b"bye\0") => {
                Told::Dreq
            }
            Event::DrepReceived { private_data } if private_data.starts_with(b"well\0") => {
                Told::Drep
            }
            Event::LapReceived {
                generation,
                private_data,
                ..
            } if private_data.starts_with(b"this\0") => Told::Lap(generation),
            Event::AprReceived {
                status,
                private_data,
                ..
            } if private_data.starts_with(b"yes\0") => Told::Apr(status),
            Event::SidrRepReceived {
                status,
                qpn,
                qkey,
                private_data,
                ..
            } if private_data.starts_with(b"here\0") => Told::Sidr(status, qpn, qkey),
            Event::Migrated { path } => Told::Migrated(path.local.lid),
            Event::TimewaitExit => Told::TimewaitExit,
            Event::MraReceived { .. } => return,
            Event::Removed => {
                let what = if is_own { "connection" } else { "listener" };
                pr_info!("{} {what}: told that the HCA is gone\n", this.name);
                Told::Removed
            }
            _ => Told::Other,
        };
        this.note(told);
        if answers_late && told == Told::Dreq {
            this.answer_late(id);
        }
        // Whoever lets go of it waits for this.
        if id.query().is_err() {
            FAILURES.fetch_add(1, Relaxed);
        }
    }

    fn req(this: ArcBorrow<'_, Self>, newcomer: Newcomer<'_, Self>, req: &ReqReceived<'_>) {
        if this.inner.lock().refuses {
            let why = Rej {
                private_data: b"not now",
                ..Rej::new(reason::CONSUMER)
            };
            let _ = newcomer.send_rej(&why);
            return;
        }
        let told = if req.private_data.starts_with(b"may I\0") {
            Told::Req
        } else {
            Told::Other
        };
        let id = newcomer.keep(this.into());
        this.inner.lock().id = Some(id);
        this.note(told);
    }

    fn sidr_req(_: ArcBorrow<'_, Self>, newcomer: Newcomer<'_, Self>, req: &SidrReqReceived<'_>) {
        if req.private_data.starts_with(b"where\0") {
            let rep = SidrRep {
                private_data: b"here",
                ..SidrRep::new(SidrStatus::Valid, 7, QKEY)
            };
            let _ = newcomer.send_sidr_rep(&rep);
        }
    }
}

impl Side {
    fn new(name: &'static str) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                name,
                inner <- new_mutex!(Inner::default()),
                changed <- new_condvar!(),
            }),
            GFP_KERNEL,
        )
    }

    fn note(&self, told: Told) {
        if self.inner.lock().told.push(told, GFP_KERNEL).is_err() {
            pr_err!("{}: out of memory\n", self.name);
        }
        self.changed.notify_all();
    }

    /// The next that this is told.
    fn next(&self) -> Result<Told> {
        let mut inner = self.inner.lock();
        loop {
            if let Ok(told) = inner.told.remove(0) {
                return Ok(told);
            }
            let due = msecs_to_jiffies(DUE_MS);
            match self.changed.wait_interruptible_timeout(&mut inner, due) {
                CondVarTimeoutResult::Woken { .. } => {}
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
    }

    /// Agrees to the end of a connection, of which somebody lets go.
    fn answer_late(&self, id: &Id) {
        while self.inner.lock().id.is_some() {
            fsleep(Delta::from_millis(LATE_MS));
        }
        fsleep(Delta::from_millis(LATE_MS));
        let answered = id.send_drep(b"well");
        self.inner.lock().answered = Some(answered);
    }

    fn expect(&self, told: Told) -> Result {
        check!(self.next()? == told, "{}: told something else", self.name);
        Ok(())
    }

    /// Gives orders.
    fn order<R>(&self, f: impl FnOnce(&Id) -> Result<R>) -> Result<R> {
        f(self.inner.lock().id.as_ref().ok_or(ENOENT)?)
    }

    /// Gives orders about the queue pair, if there is one.
    fn with_qp(&self, f: impl FnOnce(&Id, &mut Qp<'_>) -> Result) -> Result {
        let inner = &mut *self.inner.lock();
        let id = inner.id.as_ref().ok_or(ENOENT)?;
        match &mut inner.queues {
            Some(queues) => f(id, &mut queues.qp()),
            None => Ok(()),
        }
    }

    fn advance(&self, states: &[QpState]) -> Result {
        self.with_qp(|id, qp| states.iter().try_for_each(|state| id.modify_qp(qp, *state)))
    }

    fn qpn(&self) -> u32 {
        match &mut self.inner.lock().queues {
            Some(queues) => queues.qp().number(),
            None => FAKE_QPN.fetch_add(1, Relaxed),
        }
    }

    /// Destroys the identifier, which waits for its handler, so not with the lock.
    fn let_go(&self) {
        let id = self.inner.lock().id.take();
        drop(id);
        self.inner.lock().told.clear();
    }

    fn stop_listening(&self) {
        let listeners = core::mem::take(&mut self.inner.lock().listeners);
        drop(listeners);
    }

    fn drop_queues(&self) {
        let queues = self.inner.lock().queues.take();
        drop(queues);
    }
}

/// How far a connection comes.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    Asked,
    Told,
    Accepted,
    Answered,
    Established,
    Offered,
    Parting,
    ToldOfEnd,
    Waiting,
}

const STAGES: [Stage; 9] = [
    Stage::Asked,
    Stage::Told,
    Stage::Accepted,
    Stage::Answered,
    Stage::Established,
    Stage::Offered,
    Stage::Parting,
    Stage::ToldOfEnd,
    Stage::Waiting,
];

/// The first two HCAs, and what is on them.
#[pin_data]
struct Hcas {
    #[pin]
    devices: Mutex<[Option<ARef<Device>>; 2]>,
    sides: [Arc<Side>; 2],
}

impl Client for Hcas {
    type Data = usize;
    const NAME: &'static CStr = c"cmrust";

    fn add(this: ArcBorrow<'_, Self>, device: &Device) -> Result<usize> {
        let mut devices = this.devices.lock();
        let index = devices.iter().position(Option::is_none).ok_or(ENODEV)?;
        devices[index] = Some(device.into());
        Ok(index)
    }

    /// What is on the device goes with it, but for what the passive side has: that hears of it.
    fn remove(this: ArcBorrow<'_, Self>, index: usize) {
        if index == ACTIVE {
            this.sides[index].let_go();
        }
        this.sides[index].drop_queues();
        let device = this.devices.lock()[index].take();
        drop(device);
        pr_info!("HCA {index} is gone\n");
    }
}

impl Hcas {
    fn new() -> Result<Arc<Self>> {
        let sides = [Side::new("active")?, Side::new("passive")?];
        Arc::pin_init(
            pin_init!(Self {
                devices <- new_mutex!([None, None]),
                sides,
            }),
            GFP_KERNEL,
        )
    }

    fn device(&self, index: usize) -> Result<ARef<Device>> {
        self.devices.lock()[index].clone().ok_or(ENODEV)
    }

    /// The path by port `port` of each.
    fn path(&self, port: u32) -> Result<Path> {
        let local = self.device(ACTIVE)?.address(port)?;
        Ok(Path::new(local, self.device(PASSIVE)?.address(port)?))
    }

    fn make_id(&self) -> Result {
        let side = &self.sides[ACTIVE];
        let id = CmId::new(&*self.device(ACTIVE)?, side.clone())?;
        side.inner.lock().id = Some(id);
        Ok(())
    }

    fn request(&self, service_id: u64) -> Result {
        let side = &self.sides[ACTIVE];
        self.make_id()?;
        let req = Req {
            starting_psn: 0xabcdef,
            private_data: b"may I",
            ..Req::new(service_id, side.qpn(), self.path(1)?)
        };
        side.order(|id| id.send_req(&req))
    }

    fn offer(&self) -> Result {
        let lap = Lap {
            private_data: b"this",
            ..Lap::new(self.path(2)?)
        };
        self.sides[ACTIVE].order(|id| id.send_lap(&lap))
    }

    /// Brings a connection as far as `stage`, with queue pairs if there are some.
    fn reach(&self, stage: Stage) -> Result {
        let [active, passive] = &self.sides;
        // Without ib_cm there is nobody who answers this.
        if stage == Stage::Asked {
            return self.request(NO_SERVICE);
        }
        self.request(SERVICE)?;
        passive.expect(Told::Req)?;
        if stage == Stage::Told {
            return Ok(());
        }
        passive.advance(&[QpState::Init, QpState::Rtr])?;
        let rep = Rep {
            private_data: b"you may",
            ..Rep::new(passive.qpn(), 0x123456)
        };
        passive.order(|id| id.send_rep(&rep))?;
        passive.advance(&[QpState::Rts])?;
        if stage == Stage::Accepted {
            return Ok(());
        }
        active.expect(Told::Rep)?;
        if stage == Stage::Answered {
            return Ok(());
        }
        active.advance(&[QpState::Init, QpState::Rtr, QpState::Rts])?;
        active.order(|id| id.send_rtu(b"so"))?;
        passive.expect(Told::Rtu)?;
        if stage == Stage::Established {
            return Ok(());
        }
        if stage == Stage::Offered {
            self.offer()?;
            check!(matches!(passive.next()?, Told::Lap(_)), "no LAP");
            return Ok(());
        }
        active.order(|id| id.send_dreq(b"bye"))?;
        if stage == Stage::Parting {
            return Ok(());
        }
        passive.expect(Told::Dreq)?;
        if stage == Stage::ToldOfEnd {
            return Ok(());
        }
        passive.order(|id| id.send_drep(b"well"))?;
        active.expect(Told::Drep)
    }

    fn load(&self) -> Result {
        let [active, passive] = &self.sides;
        self.offer()?;
        check!(self.offer() == Err(EBUSY), "two LAPs");
        let Told::Lap(generation) = passive.next()? else {
            pr_err!("no LAP\n");
            return Err(EIO);
        };
        passive.with_qp(|id, qp| id.load(qp))?;
        let old = Apr::new(generation.wrapping_add(1), ap_status::LOADED);
        check!(
            passive.order(|id| id.send_apr(&old)) == Err(errno::stale()),
            "an old LAP"
        );
        let apr = Apr {
            private_data: b"yes",
            ..Apr::new(generation, ap_status::LOADED)
        };
        passive.order(|id| id.send_apr(&apr))?;
        active.expect(Told::Apr(ap_status::LOADED))?;
        active.with_qp(|id, qp| id.load(qp))
    }

    fn migrate(&self) -> Result {
        let [active, passive] = &self.sides;
        let path = self.path(2)?;
        // Pairs without traffic are armed by a probe.
        let mut tries = 0..DUE_MS / 50;
        while let Err(err) = active.with_qp(|id, qp| id.migrate(qp)) {
            check!(err == EINVAL && tries.next().is_some(), "not armed");
            fsleep(Delta::from_millis(50));
        }
        active.expect(Told::Migrated(path.local.lid))?;
        passive.expect(Told::Migrated(path.remote.lid))?;
        let known = active.order(|id| id.query())?;
        check!(
            known.state == State::Established
                && known.alternate.is_none()
                && known.primary.local == path.local
                && known.primary.remote == path.remote,
            "{known:?}"
        );
        Ok(())
    }

    fn test_connection(&self) -> Result {
        let [active, passive] = &self.sides;
        for (side, index) in [(active, ACTIVE), (passive, PASSIVE)] {
            let queues = Queues::new(&*self.device(index)?)?;
            side.inner.lock().queues = Some(queues);
        }
        self.reach(Stage::Established)?;
        let long = [0; 225];
        check!(
            active.order(|id| id.send_rtu(&long)) == Err(EINVAL),
            "a long RTU"
        );
        let listens = active.order(|id| id.listen(NO_SERVICE, Kind::Connections));
        check!(listens == Err(EINVAL), "a connection listens");
        let mut foreign = Queues::new(&*self.device(ACTIVE)?)?;
        let other = passive.order(|id| id.modify_qp(&mut foreign.qp(), QpState::Rts));
        check!(other == Err(EINVAL), "a queue pair of another HCA");
        self.load()?;
        self.migrate()?;
        active.order(|id| id.send_dreq(b"bye"))?;
        passive.expect(Told::Dreq)?;
        passive.order(|id| id.send_drep(b"well"))?;
        active.expect(Told::Drep)?;
        for side in [active, passive] {
            side.expect(Told::TimewaitExit)?;
            side.let_go();
            side.drop_queues();
        }
        pr_info!("connected, migrated, disconnected\n");
        Ok(())
    }

    /// The handler refuses, so there is no identifier.
    fn test_refusal(&self) -> Result {
        let [active, passive] = &self.sides;
        passive.inner.lock().refuses = true;
        self.request(SERVICE)?;
        active.expect(Told::Rej(reason::CONSUMER))?;
        active.let_go();
        passive.inner.lock().refuses = false;
        check!(
            passive.inner.lock().id.is_none(),
            "an identifier that was refused"
        );
        pr_info!("refused\n");
        Ok(())
    }

    fn test_datagrams(&self) -> Result {
        let active = &self.sides[ACTIVE];
        self.make_id()?;
        let req = SidrReq {
            private_data: b"where",
            ..SidrReq::new(SERVICE, self.path(1)?)
        };
        active.order(|id| id.send_sidr_req(&req))?;
        active.expect(Told::Sidr(0, 7, QKEY))?;
        active.let_go();
        Ok(())
    }

    /// Either side lets go of a connection at each stage, then the other one.
    fn test_stages(&self) -> Result {
        for stage in STAGES {
            for first in [ACTIVE, PASSIVE] {
                self.reach(stage)?;
                self.sides[first].let_go();
                self.sides[1 - first].let_go();
            }
        }
        self.make_id()?;
        self.sides[ACTIVE].let_go();
        let failures = FAILURES.load(Relaxed);
        check!(failures == 0, "{failures} orders of handlers failed");
        pr_info!("let go at {} stages\n", STAGES.len());
        Ok(())
    }

    /// The owner lets go of an identifier while its handler gives an order, which is carried out.
    fn test_late_order(&self) -> Result {
        let [active, passive] = &self.sides;
        passive.inner.lock().answers_late = true;
        self.reach(Stage::ToldOfEnd)?;
        passive.let_go();
        let answered = passive.inner.lock().answered;
        check!(answered == Some(Ok(())), "a late order: {answered:?}");
        active.expect(Told::Drep)?;
        active.let_go();
        passive.inner.lock().answers_late = false;
        Ok(())
    }

    fn listen(&self) -> Result {
        let passive = &self.sides[PASSIVE];
        let device = self.device(PASSIVE)?;
        for kind in [Kind::Connections, Kind::Datagrams] {
            let listener = CmId::new(&*device, passive.clone())?;
            listener.listen(SERVICE, kind)?;
            passive.inner.lock().listeners.push(listener, GFP_KERNEL)?;
        }
        let other = CmId::new(&*device, passive.clone())?;
        let second = other.listen(SERVICE, Kind::Connections);
        check!(second == Err(errno::address_in_use()), "two listeners");
        let foreign = other.listen(FOREIGN_SERVICE, Kind::Connections);
        check!(foreign == Err(EACCES), "a service of rdma_cm");
        Ok(())
    }

    fn run(&self) -> Result {
        self.listen()?;
        self.test_connection()?;
        self.test_refusal()?;
        self.test_datagrams()?;
        self.test_stages()?;
        self.test_late_order()?;
        if *module_parameters::hold.value() != 0 {
            self.reach(Stage::Established)?;
            pr_info!("held\n");
        }
        Ok(())
    }

    /// Breaks the circles of sides and their identifiers.
    fn clear(&self) {
        for side in &self.sides {
            side.stop_listening();
            side.let_go();
            side.drop_queues();
        }
    }
}

/// The loaded module.
struct CmRust {
    hcas: Arc<Hcas>,
    registration: Option<Registration<Hcas>>,
}

impl kernel::Module for CmRust {
    fn init(_: &'static ThisModule) -> Result<Self> {
        let hcas = Hcas::new()?;
        let module = Self {
            hcas: hcas.clone(),
            registration: Some(Registration::new(hcas)?),
        };
        module.hcas.run()?;
        Ok(module)
    }
}

impl Drop for CmRust {
    fn drop(&mut self) {
        drop(self.registration.take());
        self.hcas.clear();
        if FAILURES.load(Relaxed) != 0 {
            pr_err!("wrong: orders of handlers failed\n");
        }
    }
}
