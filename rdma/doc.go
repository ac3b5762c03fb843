// Package rdma defines the vocabulary that RDMA transports and their users
// share: steering tags, memory regions, work requests, completions, and
// connected queue pairs. It holds interfaces and small types only, so that any
// provider (a software iWARP stack, an in-memory stack for tests, a real card)
// can be used by the same code.
//
// It must not know how a provider moves bytes, nor what an upper layer means by
// them.
//
//	upper layer ──Post──▶ send queue ──▶ peer's memory or receive queue
//	     ▲                    │
//	     ├── Completer ◀──────┘  the work request is done
//	     └── Handler  ◀── receive queue ◀── peer's Sends and Immediate Data
//
// Users that prefer to poll or wait instead of being called can use
// CompletionQueue, which is a Completer, and ReceiveQueue, which is a Handler.
//
// # Slice ownership
//
// A slice given in a WR belongs to the connection until the WR completes. A
// received message arrives in a lent buffer (package buf) that belongs to the
// Handler, which must release the buffer. Registered memory always belongs to
// its owner, but the peer may change it until the region is deregistered or
// invalidated.
package rdma
