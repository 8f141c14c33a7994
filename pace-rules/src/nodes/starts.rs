//! In which order the nodes are started after a crash.

/// What a cluster makes of a crash may depend on who is there first: a majority that lost something
/// may agree on what is left before a node comes up that has all, or the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StartOrder {
    /// All at once.
    #[default]
    Together,
    /// Those that lost something first.
    LostFirst,
    /// Those that lost something last.
    LostLast,
}

impl StartOrder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Together, Self::LostFirst, Self::LostLast];

    /// Which nodes are started first, and which after them; `nodes` are those that have a disk, each
    /// with whether it lost something. None if all are started together: where all of them or none
    /// lost something, no order is another one.
    pub fn divide(
        self,
        nodes: impl IntoIterator<Item = (usize, bool)>,
    ) -> Option<(Vec<usize>, Vec<usize>)> {
        let mut parts = (Vec::new(), Vec::new());
        for (node, has_lost) in nodes {
            let is_first = has_lost == (self == Self::LostFirst);
            let part = if is_first { &mut parts.0 } else { &mut parts.1 };
            part.push(node);
        }
        let is_divided = !parts.0.is_empty() && !parts.1.is_empty();
        (self != Self::Together && is_divided).then_some(parts)
    }

    /// Each of some orders once, the usual one first; that one if there is none.
    pub(super) fn each(orders: &[Self]) -> Vec<Self> {
        let mut orders = orders.to_vec();
        orders.sort_unstable();
        orders.dedup();
        if orders.is_empty() {
            orders.push(Self::default());
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_divided_where_some_lost_something() {
        let of = |order: StartOrder, lost: [bool; 3]| order.divide([4, 6, 9].into_iter().zip(lost));
        let one = [false, true, false];
        assert_eq!(of(StartOrder::Together, one), None);
        assert_eq!(of(StartOrder::LostFirst, one), Some((vec![6], vec![4, 9])));
        assert_eq!(of(StartOrder::LostLast, one), Some((vec![4, 9], vec![6])));
        for order in StartOrder::ALL {
            assert_eq!(of(order, [true; 3]), None);
            assert_eq!(of(order, [false; 3]), None);
        }
    }
}
