//! The names that can occur: those of the bounds, their parents, and every name that a rename
//! of a directory can give to something. Everything else works on their numbers.

use crate::bounds::BoundsError;

/// How many names there can be: sets of names are the bits of a `u64`.
pub(crate) const MAX_PATHS: usize = 64;

/// The number of a name.
pub(crate) type PathId = u8;

/// All names. Those of the bounds come first, in the order of enumeration.
#[derive(Debug, Clone)]
pub(crate) struct PathTable {
    text: Vec<String>,
    is_dir: Vec<bool>,
    parent: Vec<PathId>,
    children: Vec<Vec<PathId>>,
    moves: Vec<Move>,
    root: PathId,
    named: PathId,
}

/// What a rename of one directory to another does to the names.
#[derive(Debug, Clone)]
struct Move {
    source: PathId,
    dest: PathId,
    /// From, to; the directory itself first.
    names: Vec<(PathId, PathId)>,
}

impl PathTable {
    /// Gives numbers to files, then directories, then the root, then the parents.
    pub(crate) fn new(files: &[&[String]], dirs: &[&[String]]) -> Result<Self, BoundsError> {
        let mut table = PathTable {
            text: Vec::new(),
            is_dir: Vec::new(),
            parent: Vec::new(),
            children: Vec::new(),
            moves: Vec::new(),
            root: 0,
            named: 0,
        };
        for (lists, is_dir) in [(files, false), (dirs, true)] {
            for path in lists.iter().copied().flatten() {
                check(path)?;
                table.intern(path, is_dir)?;
            }
        }
        table.root = table.intern(".", true)?;
        table.named = table.root + 1;
        table.link_parents()?;
        Ok(table)
    }

    /// Adds every name that up to `renames` renames among `pairs` of directories can make.
    pub(crate) fn close_over(
        &mut self,
        pairs: &[(PathId, PathId)],
        renames: usize,
    ) -> Result<(), BoundsError> {
        for _ in 0..renames {
            for &(source, dest) in pairs {
                for below in self.below(source) {
                    let moved = self.moved(below, source, dest);
                    self.intern(&moved, self.is_dir(below))?;
                }
            }
        }
        self.link_parents()?;
        self.moves = pairs
            .iter()
            .map(|&(source, dest)| self.moves_of(source, dest))
            .collect();
        Ok(())
    }

    fn moves_of(&self, source: PathId, dest: PathId) -> Move {
        let mut names = vec![(source, dest)];
        for below in self.below(source) {
            names.extend(
                self.find(&self.moved(below, source, dest))
                    .map(|to| (below, to)),
            );
        }
        Move {
            source,
            dest,
            names,
        }
    }

    fn moved(&self, path: PathId, source: PathId, dest: PathId) -> String {
        format!(
            "{}{}",
            self.text(dest),
            &self.text(path)[self.text(source).len()..]
        )
    }

    fn below(&self, dir: PathId) -> Vec<PathId> {
        (0..self.text.len() as PathId)
            .filter(|&path| self.is_below(path, dir))
            .collect()
    }

    fn intern(&mut self, path: &str, is_dir: bool) -> Result<PathId, BoundsError> {
        if let Some(id) = self.find(path) {
            if self.is_dir(id) != is_dir {
                return Err(BoundsError::FileAndDirectory(path.to_owned()));
            }
            return Ok(id);
        }
        if self.text.len() == MAX_PATHS {
            return Err(BoundsError::TooManyPaths);
        }
        self.text.push(path.to_owned());
        self.is_dir.push(is_dir);
        Ok((self.text.len() - 1) as PathId)
    }

    fn link_parents(&mut self) -> Result<(), BoundsError> {
        self.parent.clear();
        while self.parent.len() < self.text.len() {
            let path = self.text[self.parent.len()].clone();
            let parent = match path.rsplit_once('/') {
                Some((parent, _)) => self.intern(parent, true)?,
                None => self.root,
            };
            self.parent.push(parent);
        }
        self.children = vec![Vec::new(); self.text.len()];
        for (path, &parent) in self.parent.iter().enumerate() {
            if path != usize::from(self.root) {
                self.children[usize::from(parent)].push(path as PathId);
            }
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// How many names are those of the bounds or the root; they are the first.
    pub(crate) fn named(&self) -> PathId {
        self.named
    }

    pub(crate) fn root(&self) -> PathId {
        self.root
    }

    pub(crate) fn find(&self, path: &str) -> Option<PathId> {
        self.text
            .iter()
            .position(|known| known == path)
            .map(|id| id as PathId)
    }

    pub(crate) fn text(&self, path: PathId) -> &str {
        &self.text[usize::from(path)]
    }

    pub(crate) fn is_dir(&self, path: PathId) -> bool {
        self.is_dir[usize::from(path)]
    }

    /// The parent; the root is its own.
    pub(crate) fn parent(&self, path: PathId) -> PathId {
        self.parent[usize::from(path)]
    }

    pub(crate) fn children(&self, dir: PathId) -> &[PathId] {
        &self.children[usize::from(dir)]
    }

    /// Whether `path` is inside `dir`, at any depth.
    pub(crate) fn is_below(&self, path: PathId, dir: PathId) -> bool {
        let rest = self.text(path).strip_prefix(self.text(dir));
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// How many directories are between `path` and the root.
    pub(crate) fn depth(&self, path: PathId) -> usize {
        self.text(path).matches('/').count()
    }

    /// From and to of every name that moves when the directory `source` becomes `dest`.
    pub(crate) fn moves(&self, source: PathId, dest: PathId) -> &[(PathId, PathId)] {
        let found = self
            .moves
            .iter()
            .find(|known| known.source == source && known.dest == dest);
        found.map_or(&[], |known| &known.names)
    }
}

fn check(path: &str) -> Result<(), BoundsError> {
    let plain = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(allowed)
    };
    if path.split('/').all(plain) {
        Ok(())
    } else {
        Err(BoundsError::Path(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::names;

    #[test]
    fn names_that_renames_of_directories_make_are_known() {
        let mut table = PathTable::new(&[&names(&["A/foo"])], &[&names(&["A", "B"])]).unwrap();
        let pair = (table.find("A").unwrap(), table.find("B").unwrap());
        assert_eq!(table.find("B/foo"), None);
        table.close_over(&[pair], 1).unwrap();
        let moved = (table.find("A/foo").unwrap(), table.find("B/foo").unwrap());
        assert_eq!(table.moves(pair.0, pair.1), [pair, moved]);
        assert_eq!(table.children(pair.1), [moved.1]);
    }

    #[test]
    fn a_name_is_a_file_or_a_directory() {
        let error = PathTable::new(&[&names(&["A"])], &[&names(&["A"])]).unwrap_err();
        assert_eq!(error, BoundsError::FileAndDirectory("A".to_owned()));
        for bad in ["", "/foo", "A//foo", "../foo", "foo;bar", "foo bar", "A/."] {
            assert!(PathTable::new(&[&names(&[bad])], &[]).is_err(), "{bad}");
        }
    }
}
