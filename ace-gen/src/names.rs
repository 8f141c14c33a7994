//! Enumerations that people write on a command line: one table gives parser and printer.

/// A word that names none of the known things.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} '{given}'; known: {known}")]
pub struct UnknownName {
    /// What kind of thing was asked for.
    pub kind: &'static str,
    /// What was given.
    pub given: String,
    /// What could have been given, separated by commas.
    pub known: String,
}

/// Finds the value called `given` in a table of names.
pub(crate) fn find<T: Copy>(
    kind: &'static str,
    table: &[(T, &str)],
    given: &str,
) -> Result<T, UnknownName> {
    let found = table.iter().find(|(_, name)| *name == given);
    found.map(|(value, _)| *value).ok_or_else(|| UnknownName {
        kind,
        given: given.to_owned(),
        known: table
            .iter()
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Declares an enumeration whose values have names.
macro_rules! named {
    (
        $(#[$meta:meta])* pub enum $name:ident ($kind:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// Every value with its name, in our order.
            pub const ALL: &'static [(Self, &'static str)] = &[ $( ($name::$variant, $text), )+ ];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $( $name::$variant => $text, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::names::find($kind, Self::ALL, text)
            }
        }
    };
}
pub(crate) use named;
