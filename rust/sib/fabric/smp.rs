// SPDX-License-Identifier: GPL-2.0

//! Management datagrams at the switch: subnet management on its way through, performance management of the
//! switch itself, and traps.

use super::{
    beacon::Search,
    now,
    route::Segment,
    Fabric,
    State, //
};
use crate::partition;
use crate::payload::Source;
use crate::run::RunQueue;
use kernel::sync::Arc;
use proto::fabric::switch::{
    Lrh,
    SmpVerdict, //
};
use proto::fabric::trap::TrapOut;
use proto::fabric::Mad;
use proto::sa::Address;
use rdma::sync::{
    Cx,
    IrqsOn,
    Unlocked, //
};
use rdma::timer::Expire;
use wire::bth::Bth;
use wire::deth::Deth;
use wire::grh::Grh;
use wire::header::Header;
use wire::mad::{
    class,
    MadHeader, //
};
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum,
    QKey,
    Qpn,
    Sl,
    Vl, //
};

/// The datagram that is the payload of `segment`, if it has the size of one.
fn datagram(segment: &Segment<'_>) -> Option<Mad> {
    let mut mad = [0; 256];
    if segment.source.len() != mad.len() || segment.header.deth.is_none() {
        return None;
    }
    segment.source.copy_out(0, &mut mad).ok()?;
    Some(mad)
}

/// The headers of a trap.
pub(crate) fn trap_header(trap: &TrapOut) -> Option<Header> {
    let lrh = Lrh {
        slid: trap.slid,
        dlid: trap.dlid,
    };
    smi_header(lrh, trap.sl)
}

/// The headers of a datagram for QP0.
pub(super) fn smi_header(lrh: Lrh, sl: Sl) -> Option<Header> {
    let mut header = Header {
        bth: Bth {
            opcode: Opcode::new(Service::Ud, Operation::SendOnly)?,
            pkey: PKey::DEFAULT,
            dest_qp: Qpn::SMI,
            ..Bth::default()
        },
        deth: Some(Deth {
            qkey: QKey::new(0),
            src_qp: Qpn::SMI,
        }),
        ..Header::default()
    };
    header.lrh.vl = Vl::MANAGEMENT;
    header.lrh.sl = sl;
    header.lrh.slid = lrh.slid;
    header.lrh.dlid = lrh.dlid;
    header.set_payload_len(core::mem::size_of::<Mad>()).ok()?;
    Some(header)
}

/// The headers of a datagram from QP1 of the switch, which has `lid` and `gid`.
pub(super) fn gsi_header(lid: Lid, gid: Gid, to: &Address) -> Option<Header> {
    let mut header = Header {
        bth: Bth {
            opcode: Opcode::new(Service::Ud, Operation::SendOnly)?,
            pkey: to.pkey,
            dest_qp: to.qpn,
            ..Bth::default()
        },
        deth: Some(Deth {
            qkey: QKey::GSI,
            src_qp: Qpn::GSI,
        }),
        grh: to.gid.map(|dgid| Grh {
            sgid: gid,
            dgid,
            ..Grh::default()
        }),
        ..Header::default()
    };
    header.lrh.sl = to.sl;
    header.lrh.slid = lid;
    header.lrh.dlid = to.lid;
    header.set_payload_len(core::mem::size_of::<Mad>()).ok()?;
    Some(header)
}

/// Whether a datagram is of subnet administration.
fn is_for_administration(mad: &Mad) -> bool {
    MadHeader::parse(mad).is_ok_and(|header| header.mgmt_class == class::SUBN_ADM)
}

/// Whom a datagram for QP1 with these headers is from. Programs without privileges do not have its Q_Key.
fn sender(header: &Header) -> Option<Address> {
    let deth = header.deth.filter(|deth| deth.qkey == QKey::GSI)?;
    Some(Address {
        lid: header.lrh.slid,
        qpn: deth.src_qp,
        sl: header.lrh.sl,
        pkey: header.bth.pkey,
        gid: header.grh.map(|grh| grh.sgid),
    })
}

/// The headers of the answer to a datagram for QP1, whose headers are `request`.
fn answer_header(request: &Header) -> Option<Header> {
    let mut header = *request;
    header.lrh.slid = request.lrh.dlid;
    header.lrh.dlid = request.lrh.slid;
    header.bth.dest_qp = request.deth?.src_qp;
    header.deth = Some(Deth {
        qkey: QKey::GSI,
        src_qp: Qpn::GSI,
    });
    if let (Some(grh), Some(asked)) = (&mut header.grh, request.grh) {
        grh.sgid = asked.dgid;
        grh.dgid = asked.sgid;
    }
    Some(header)
}

impl Fabric {
    /// Lets the switch look at a subnet management packet, and sends what becomes of it.
    pub(super) fn manage(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        in_port: PortNum,
        segment: Segment<'_>,
    ) {
        let Some(mut mad) = datagram(&segment) else {
            return;
        };
        let mut header = *segment.header;
        let lrh = Lrh {
            slid: header.lrh.slid,
            dlid: header.lrh.dlid,
        };
        let outcome = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let before = state.switch.generation();
            let outcome = state.switch.on_smp(in_port, &mut mad, lrh, now());
            if state.switch.generation() != before {
                self.new_generation();
            }
            state.count_smp(&segment, outcome.verdict);
            if outcome.verdict == SmpVerdict::Deliver {
                self.post(state, &mad, lrh);
            }
            outcome
        };
        if let SmpVerdict::Forward { port, lrh } | SmpVerdict::Reply { port, lrh } = outcome.verdict
        {
            header.lrh.slid = lrh.slid;
            header.lrh.dlid = lrh.dlid;
            let source = Source::Bytes(&mad);
            let segment = Segment {
                header: &header,
                span: 1,
                source: &source,
                damage: None,
                hops: 0,
            };
            self.send_out(cx, irqs, run, port, segment);
        }
        match outcome.settle {
            Some(port) => {
                // The answer leaves before the word that the link is gone.
                run.flush(cx, irqs);
                self.settle_switch(cx, irqs, port);
            }
            None => self.rearm(cx),
        }
    }

    /// Answers a datagram for QP1 of the switch, or keeps it for subnet administration.
    pub(super) fn answer(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        segment: Segment<'_>,
    ) {
        if segment.header.bth.dest_qp != Qpn::GSI {
            return;
        }
        let Some(from) = sender(segment.header) else {
            return;
        };
        let (Some(mut mad), Some(mut header)) = (datagram(&segment), answer_header(segment.header))
        else {
            return;
        };
        // It answers everybody, whatever another subnet manager has left in the table of the switch.
        if is_for_administration(&mad) {
            self.post_request(&mut cx.lock(&self.state), &mad, from);
            return;
        }
        let bad = partition::bad_pkey(segment.header);
        let own = {
            let mut state = cx.lock(&self.state);
            state.switch.partition_of(from.pkey, &bad, now())
        };
        let Some(own) = own else {
            return self.rearm(cx);
        };
        header.bth.pkey = own;
        let answers = {
            let mut state = cx.lock(&self.state);
            self.report_traffic(&mut state);
            state.switch.on_gmp(&mut mad)
        };
        if !answers {
            return;
        }
        let source = Source::Bytes(&mad);
        let segment = Segment {
            header: &header,
            span: 1,
            source: &source,
            damage: None,
            hops: 0,
        };
        self.carry(cx, irqs, run, PortNum::MANAGEMENT, segment);
    }

    /// Moves to the counters of the switch what has passed its ports without the lock.
    fn report_traffic(&self, state: &mut State) {
        for (traffic, port) in self.ways.traffic.iter().zip(0u8..) {
            if let Some(counters) = state.switch.counters_mut(PortNum::new(port)) {
                traffic.report(counters);
            }
        }
    }

    /// Sets the clock to the next trap of the switch, word of a cable, or beacon.
    pub(super) fn rearm(&self, cx: &mut Cx<'_, Unlocked>) {
        let guard = cx.lock(&self.state);
        let due = guard.switch.next_trap().into_iter();
        let due = due
            .chain(guard.next_cable())
            .chain(guard.search.as_ref().map(Search::due));
        if let Some(due) = due.min() {
            self.timer.arm(due.nanos());
        }
    }

    /// Sends the traps of the switch that are due.
    fn send_traps(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, run: &mut RunQueue) {
        loop {
            let trap = cx.lock(&self.state).switch.poll_trap(now());
            let Some(trap) = trap else { break };
            let Some(header) = trap_header(&trap) else {
                continue;
            };
            let source = Source::Bytes(&trap.mad);
            let segment = Segment {
                header: &header,
                span: 1,
                source: &source,
                damage: None,
                hops: 0,
            };
            self.carry(cx, irqs, run, PortNum::MANAGEMENT, segment);
        }
    }
}

impl Expire for Fabric {
    type Pointer = Arc<Self>;

    fn expire(this: &Arc<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        this.tend_cables(&mut cx, irqs);
        this.tell_neighbours(&mut cx, irqs);
        RunQueue::with(&mut cx, irqs, |cx, run| this.send_traps(cx, irqs, run));
        this.rearm(&mut cx);
    }
}
