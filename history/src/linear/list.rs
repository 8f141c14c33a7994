//! The calls and returns that are not in the order yet, in the order in which they happened: a list
//! from which an operation is taken, and put back, in no time (Wing and Gong 1993, Lowe 2017).

/// Calls have even numbers, twice that of their operation; their returns the odd ones after them.
pub(super) struct List {
    next: Vec<u32>,
    previous: Vec<u32>,
}

/// What the list begins and ends with, after all operations.
fn head(list: &List) -> usize {
    list.next.len() - 1
}

impl List {
    /// Of operations with these calls and returns.
    pub(super) fn new(times: &[(usize, usize)]) -> Self {
        let count = times.len() * 2;
        let time = |entry: usize| {
            let (call, end) = times[entry / 2];
            if entry.is_multiple_of(2) { call } else { end }
        };
        let mut entries: Vec<_> = (0..count).collect();
        entries.sort_by_key(|&entry| time(entry));
        let mut list = Self {
            next: vec![0; count + 1],
            previous: vec![0; count + 1],
        };
        let mut before = count;
        for entry in entries.into_iter().chain([count]) {
            list.next[before] = entry as u32;
            list.previous[entry] = before as u32;
            before = entry;
        }
        list
    }

    /// The operations that were called before the first return, and the operation of that return.
    pub(super) fn candidates(&self, into: &mut Vec<u32>) -> Option<usize> {
        into.clear();
        let mut entry = self.next[head(self)] as usize;
        while entry != head(self) {
            if !entry.is_multiple_of(2) {
                return Some(entry / 2);
            }
            into.push((entry / 2) as u32);
            entry = self.next[entry] as usize;
        }
        None
    }

    /// Takes an operation out.
    pub(super) fn take(&mut self, operation: usize) {
        for entry in [2 * operation, 2 * operation + 1] {
            let (before, after) = (self.previous[entry], self.next[entry]);
            self.next[before as usize] = after;
            self.previous[after as usize] = before;
        }
    }

    /// Puts back the one that was taken out last of those that are out.
    pub(super) fn put_back(&mut self, operation: usize) {
        for entry in [2 * operation + 1, 2 * operation] {
            let (before, after) = (self.previous[entry], self.next[entry]);
            self.next[before as usize] = entry as u32;
            self.previous[after as usize] = entry as u32;
        }
    }
}
