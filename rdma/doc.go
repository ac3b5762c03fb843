// Package rdma is the vocabulary that RDMA transports and their users share:
// steering tags, memory regions, work requests, completions, and connected
// queue pairs. It holds interfaces and small types only, so that any provider
// (a software iWARP stack, an in-memory one for tests, a real card) can stand
// behind the same code.
//
// It must not know how a provider moves octets, nor what an upper layer says
// with them.
//
//	upper layer ──Post──▶ send queue ──▶ peer's memory or receive queue
//	     ▲                    │
//	     ├── Completer ◀──────┘  the work request is done
//	     └── Handler  ◀── receive queue ◀── peer's Sends and Immediate Data
//
// Who would rather poll or wait than be called has CompletionQueue, which is a
// Completer, and ReceiveQueue, which is a Handler.
//
// # Life of slices
//
// A slice given in a WR belongs to the connection until the WR completes. A
// received message arrives in a lent buffer (package buf) that belongs to the
// Handler, which releases it. Registered memory belongs to its owner at all
// times, but the peer may change it until the region is deregistered or
// invalidated.
package rdma
