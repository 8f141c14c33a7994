//! Nodes of a real system: namespaces, processes, readiness, clients.
