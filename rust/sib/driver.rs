// SPDX-License-Identifier: GPL-2.0

//! What ib_core calls, and who answers.

use crate::ah::{
    self,
    Ah, //
};
use crate::counters;
use crate::cq::{
    self,
    Cq, //
};
use crate::hca::Hca;
use crate::link;
use crate::mad;
use crate::mcast;
use crate::mr::{
    self,
    Mr, //
};
use crate::mw::{
    self,
    Mw, //
};
use crate::pd::{
    self,
    Pd, //
};
use crate::qp::{
    self,
    Qp, //
};
use crate::query;
use crate::srq::{
    self,
    Srq, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::cm::{
    PathCount,
    PathState,
    QpPeer, //
};
use rdma::ib::{
    AccessFlags,
    Advice,
    AhAttr,
    CounterName,
    CqInit,
    CqUpcall,
    Detail,
    DeviceAttr,
    Driver,
    Link,
    Mad,
    MadResult,
    MwType,
    NewAh,
    NewCq,
    NewMr,
    NewMw,
    NewQp,
    NewSrq,
    Notify,
    PageList,
    PortAttr,
    PortImmutable,
    PortModify,
    QpAttr,
    QpAttrMask,
    QpInit,
    QpUpcall,
    RecvWr,
    Registrar,
    SendWr,
    Sge,
    SrqAttr,
    SrqModify,
    SrqUpcall,
    WcOut,
    MAD_SIZE, //
};
use rdma::mem::{
    FastPages,
    KernelSpace,
    UserMemory, //
};
use rdma::net::NetDevice;
use rdma::ring::Ring;
use rdma::sync::{
    Cx,
    Sleepable,
    Tracked,
    Unlocked, //
};

/// The driver.
pub(crate) enum Sib {}

impl Link for Sib {
    fn newlink(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        registrar: &Registrar<Self>,
        name: &CStr,
        netdev: &NetDevice,
    ) -> Result {
        link::add(&mut cx, s, registrar, name, netdev)
    }
}

#[vtable]
impl Driver for Sib {
    const LINK_TYPE: &'static CStr = c"sib";
    const PORT_COUNTERS: &'static [CounterName] = counters::NAMES;
    const ON_DEMAND: bool = true;

    type Device = Tracked<Hca>;
    type Pd = Arc<Pd>;
    type Cq = Tracked<Cq>;
    type Qp = Tracked<Qp>;
    type Srq = Tracked<Srq>;
    type Ah = Arc<Ah>;
    type Mr = Tracked<Mr>;
    type Mw = Tracked<Mw>;

    fn query_device(dev: &Self::Device) -> DeviceAttr {
        query::device(dev)
    }

    fn query_port(mut cx: Cx<'_, Unlocked>, dev: &Self::Device, port: u32) -> Result<PortAttr> {
        query::port(&mut cx, dev, query::port_num(dev, port)?)
    }

    fn port_immutable(dev: &Self::Device, port: u32) -> Result<PortImmutable> {
        query::port_num(dev, port)?;
        Ok(query::immutable())
    }

    fn query_gid(
        mut cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        port: u32,
        index: u32,
    ) -> Result<[u8; 16]> {
        Ok(query::gid(&mut cx, dev, query::port_num(dev, port)?, index)?.get())
    }

    fn query_pkey(
        mut cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        port: u32,
        index: u16,
    ) -> Result<u16> {
        Ok(query::pkey(&mut cx, dev, query::port_num(dev, port)?, index)?.get())
    }

    fn port_counters(dev: &Self::Device, port: u32, values: &mut [u64]) -> Result {
        query::counters(dev, query::port_num(dev, port)?, values)
    }

    fn show_qp(mut cx: Cx<'_, Unlocked>, qp: &Self::Qp, detail: &mut Detail<'_>) -> Result {
        qp.show(&mut cx, detail)
    }

    fn show_cq(mut cx: Cx<'_, Unlocked>, cq: &Self::Cq, detail: &mut Detail<'_>) -> Result {
        cq.show(&mut cx, detail)
    }

    fn show_mr(_cx: Cx<'_, Unlocked>, mr: &Self::Mr, detail: &mut Detail<'_>) -> Result {
        mr::show(mr, detail)
    }

    fn show_srq(mut cx: Cx<'_, Unlocked>, srq: &Self::Srq, detail: &mut Detail<'_>) -> Result {
        srq::show(&mut cx, srq, detail)
    }

    fn modify_port(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        dev: &Self::Device,
        port: u32,
        change: &PortModify,
    ) -> Result {
        query::modify_port(&mut cx, dev, query::port_num(dev, port)?, change)
    }

    fn modify_device(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        dev: &Self::Device,
        node_desc: &[u8; 64],
    ) -> Result {
        query::modify_device(&mut cx, dev, node_desc);
        Ok(())
    }

    fn process_mad(
        mut cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        mad: &Mad<'_>,
        reply: &mut [u8; MAD_SIZE],
    ) -> MadResult {
        mad::process(&mut cx, dev, mad, reply)
    }

    fn ending(mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device) {
        qp::flush_users(&mut cx, s, dev);
    }

    fn arrived(dev: &Self::Device) {
        mad::speak(dev);
    }

    fn leaving(mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device) {
        mad::fall_silent(&mut cx, s, dev);
    }

    fn renamed(_s: Sleepable<'_>, dev: &Self::Device, name: &CStr) {
        if let Some(files) = &*dev.debug.lock() {
            files.rename(name);
        }
    }

    fn removed(mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device) {
        link::removed(&mut cx, s, dev);
    }

    fn alloc_pd(_cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, dev: &Self::Device) -> Result<Self::Pd> {
        pd::alloc(dev.hold().ok_or(ENODEV)?)
    }

    fn dealloc_pd(_cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, _pd: &Self::Pd) {}

    fn reg_user_mr(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        memory: UserMemory,
        iova: u64,
        access: AccessFlags,
    ) -> Result<NewMr<Self::Mr>> {
        mr::reg_user(&mut cx, s, pd, memory, iova, access)
    }

    fn advise_mr(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        advice: Advice,
        flush: bool,
        list: &[Sge],
    ) -> Result {
        mr::advise(&mut cx, s, pd, advice, flush, list)
    }

    fn get_dma_mr(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        space: KernelSpace,
        access: AccessFlags,
    ) -> Result<NewMr<Self::Mr>> {
        mr::get_dma(&mut cx, s, pd, space, access)
    }

    fn dereg_mr(mut cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, mr: &Self::Mr) -> Result {
        mr::dereg(&mut cx, mr)
    }

    fn alloc_mr(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        pages: FastPages,
    ) -> Result<NewMr<Self::Mr>> {
        mr::alloc_fast(&mut cx, s, pd, pages)
    }

    fn map_mr(_cx: Cx<'_, Unlocked>, mr: &Self::Mr, list: &mut PageList<'_>) -> Result {
        mr::map(mr, list)
    }

    fn alloc_mw(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        ty: MwType,
    ) -> Result<NewMw<Self::Mw>> {
        mw::alloc(&mut cx, s, pd, ty)
    }

    fn dealloc_mw(mut cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, mw: &Self::Mw) -> Result {
        mw::dealloc(&mut cx, mw);
        Ok(())
    }

    fn create_cq(
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        dev: &Self::Device,
        upcall: CqUpcall,
        init: &CqInit,
        user: bool,
    ) -> Result<NewCq<Self::Cq>> {
        cq::create(dev, upcall, init, user)
    }

    fn destroy_cq(_cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, _cq: &Self::Cq) {}

    fn resize_cq(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        cq: &Self::Cq,
        entries: u32,
        publish: impl FnOnce(&Arc<Ring>) -> Result,
    ) -> Result<u32> {
        cq::resize(&mut cx, cq, entries, publish)
    }

    fn poll_cq(mut cx: Cx<'_, Unlocked>, cq: &Self::Cq, out: &mut WcOut<'_>) -> Result {
        cq::poll(&mut cx, cq, out)
    }

    fn req_notify_cq(mut cx: Cx<'_, Unlocked>, cq: &Self::Cq, notify: Notify) -> Result<bool> {
        Ok(cq::req_notify(&mut cx, cq, notify))
    }

    fn create_qp(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        upcall: QpUpcall,
        init: &QpInit<'_, Self>,
        user: bool,
    ) -> Result<NewQp<Self::Qp>> {
        qp::create(&mut cx, s, pd, upcall, init, user)
    }

    fn modify_qp(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qp: &Self::Qp,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result {
        qp::modify(&mut cx, s, qp, attr, mask)
    }

    fn query_qp(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        qp: &Self::Qp,
    ) -> Result<(QpAttr, bool)> {
        Ok(qp::query(&mut cx, qp))
    }

    fn destroy_qp(mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, qp: &Self::Qp) -> Result {
        qp::destroy(&mut cx, s, qp);
        Ok(())
    }

    fn doorbell(mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, qp: &Self::Qp) -> Result {
        qp::doorbell(&mut cx, s, qp)
    }

    fn post_send(mut cx: Cx<'_, Unlocked>, qp: &Self::Qp, wr: &SendWr<'_, Self>) -> Result {
        qp::post_send(&mut cx, qp, wr)
    }

    fn post_recv(mut cx: Cx<'_, Unlocked>, qp: &Self::Qp, wr: &RecvWr<'_>) -> Result {
        qp::post_recv(&mut cx, qp, wr)
    }

    fn posted(_cx: Cx<'_, Unlocked>, qp: &Self::Qp) {
        qp::posted(qp);
    }

    fn attach_mcast(
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qp: &Self::Qp,
        mgid: &[u8; 16],
        mlid: u16,
    ) -> Result {
        let held = qp.hold().ok_or(EINVAL)?;
        mcast::attach(&mut cx, s, &qp.hca, held, mcast::Group::new(mgid, mlid))
    }

    fn detach_mcast(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        qp: &Self::Qp,
        mgid: &[u8; 16],
        mlid: u16,
    ) -> Result {
        mcast::detach(&mut cx, &qp.hca, qp, mcast::Group::new(mgid, mlid))
    }

    fn is_dedicated(dev: &Self::Device) -> bool {
        dev.is_dedicated
    }

    fn path_state(mut cx: Cx<'_, Unlocked>, dev: &Self::Device, qpn: u32) -> Result<PathState> {
        qp::path_state(&mut cx, dev, qpn)
    }

    fn count_path(dev: &Self::Device, port: u32, count: PathCount) {
        let port = query::port_num(dev, port).ok();
        if let Some(counters) = port.and_then(|port| dev.counters(port)) {
            counters.count(counters::of_manager(count));
        }
    }

    fn load_path(
        mut cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        qpn: u32,
        peer: QpPeer,
        path: &AhAttr,
    ) -> Result {
        qp::load_path(&mut cx, dev, qpn, peer, path)
    }

    fn create_srq(
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        pd: &Self::Pd,
        upcall: SrqUpcall,
        init: &SrqAttr,
        user: bool,
    ) -> Result<NewSrq<Self::Srq>> {
        srq::create(pd, upcall, init, user)
    }

    fn modify_srq(
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        srq: &Self::Srq,
        change: &SrqModify,
        user: bool,
        publish: impl FnOnce(&Arc<Ring>) -> Result,
    ) -> Result {
        srq::modify(&mut cx, srq, change, user, publish)
    }

    fn query_srq(mut cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, srq: &Self::Srq) -> Result<SrqAttr> {
        Ok(srq::query(&mut cx, srq))
    }

    fn destroy_srq(_cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, _srq: &Self::Srq) {}

    fn post_srq_recv(mut cx: Cx<'_, Unlocked>, srq: &Self::Srq, wr: &RecvWr<'_>) -> Result {
        srq::post_recv(&mut cx, srq, wr)
    }

    fn create_ah(
        mut cx: Cx<'_, Unlocked>,
        pd: &Self::Pd,
        attr: &AhAttr,
        user: Option<Sleepable<'_>>,
    ) -> Result<NewAh<Self::Ah>> {
        ah::create(&mut cx, pd, attr, user)
    }

    fn query_ah(mut cx: Cx<'_, Unlocked>, ah: &Self::Ah) -> Result<AhAttr> {
        Ok(ah::query(&mut cx, ah))
    }

    fn modify_ah(mut cx: Cx<'_, Unlocked>, ah: &Self::Ah, attr: &AhAttr) -> Result {
        ah::modify(&mut cx, ah, attr)
    }

    fn destroy_ah(mut cx: Cx<'_, Unlocked>, ah: &Self::Ah) {
        ah::destroy(&mut cx, ah);
    }
}
