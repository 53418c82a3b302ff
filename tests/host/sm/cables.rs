// SPDX-License-Identifier: GPL-2.0

//! What is joined to what.

use crate::nodes::Place;

/// The cables of a fabric: for each port of each node, the port at the other end.
#[derive(Default)]
pub(crate) struct Cables(Vec<Vec<Option<Place>>>);

impl Cables {
    /// Takes in one more node, whose ports are 0 to `ports`.
    pub(crate) fn add_node(&mut self, ports: usize) {
        self.0.push(vec![None; ports + 1]);
    }

    /// The port at the other end of the cable of `near`.
    pub(crate) fn far(&self, near: Place) -> Option<Place> {
        self.0[near.0][usize::from(near.1)]
    }

    /// Joins two ports that have no cables yet.
    pub(crate) fn plug(&mut self, a: Place, b: Place) {
        for (near, far) in [(a, b), (b, a)] {
            let place = &mut self.0[near.0][usize::from(near.1)];
            assert!(place.is_none());
            *place = Some(far);
        }
    }

    /// Pulls the cable of `near`, and returns where its other end was.
    pub(crate) fn unplug(&mut self, near: Place) -> Option<Place> {
        let far = self.0[near.0][usize::from(near.1)].take()?;
        self.0[far.0][usize::from(far.1)] = None;
        Some(far)
    }

    /// The cables of a node: its port, and the other end.
    pub(crate) fn of(&self, node: usize) -> impl Iterator<Item = (Place, Place)> + '_ {
        let ports = self.0[node].iter().zip(0u8..);
        ports.filter_map(move |(far, number)| Some(((node, number), (*far)?)))
    }

    /// All cables, each from both of its ends.
    pub(crate) fn all(&self) -> Vec<(Place, Place)> {
        (0..self.0.len()).flat_map(|node| self.of(node)).collect()
    }
}
