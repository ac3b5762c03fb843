package rpcrdma

import (
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// An ExtensionConfig holds what one end offers to a peer from this project
// beyond the standards, in a block after its private data (cmpriv.Extension).
// The requester always sends the block; the responder only to a requester that
// did. With a peer that does not support the block, no extension is used. The
// zero value offers nothing, and only identifies this end to the peer.
type ExtensionConfig struct {
	// ImmediateRecvs is the number of receives that are always posted for
	// Immediate Data, beyond those for calls and replies in both directions. 0
	// means that Immediate Data is not accepted; below 0 or above 65535 is an
	// error.
	ImmediateRecvs int

	// Atomics means for a requester that it uses atomic operations, and for a
	// responder that it has memory for them.
	Atomics bool

	// Delegation offers delegation counters, which require both of the above.
	Delegation bool

	// Counters is the number of 64-bit words that a responder provides for each
	// connection's delegation counters: from 2 to 2^24. They use memory only if
	// the requester requests them, and only for pages with a word in use. All
	// counters are charged: a party gets at most an eighth of its share of
	// Server.MaxMemory in addition, but always enough for one connection.
	// Connections beyond that are offered none. A requester has no counters.
	Counters int

	// Attach is called for each connection on which both ends accept Immediate
	// Data, before any arrives. It returns that data's handler, which must not
	// be nil. The ExtensionConn reports which other extensions are enabled.
	// Attach must not make calls. It must not be nil if ImmediateRecvs is set.
	Attach func(*ExtensionConn) ExtensionHandler
}

func (x *ExtensionConfig) checkConfig(responder bool) error {
	switch {
	case x == nil:
		return nil
	case x.ImmediateRecvs < 0 || x.ImmediateRecvs > math.MaxUint16:
		return fmt.Errorf("rpcrdma: %d receives for Immediate Data are not between 0 and %d", x.ImmediateRecvs, math.MaxUint16)
	case x.ImmediateRecvs > 0 && x.Attach == nil:
		return errors.New("rpcrdma: receives for Immediate Data without a handler; set one")
	case x.Delegation && (x.ImmediateRecvs == 0 || !x.Atomics):
		return errors.New("rpcrdma: delegation counters need Immediate Data and atomic operations")
	case x.Delegation && responder && (x.Counters < minCounters || x.Counters > maxCounters):
		return fmt.Errorf("rpcrdma: %d delegation counters are not between %d and %d", x.Counters, minCounters, maxCounters)
	}
	return nil
}

// offerBlock returns x's offers, before the peer is known.
func (x *ExtensionConfig) offerBlock() cmpriv.Extension {
	return cmpriv.Extension{
		Immediate: x.ImmediateRecvs > 0, Atomics: x.Atomics, Delegation: x.Delegation, ImmediateRecvs: x.ImmediateRecvs,
	}
}

// Extensions are the extensions enabled on one connection.
type Extensions struct {
	Immediate  int  // maximum number of unanswered Immediate Data messages; 0: disabled
	Atomics    bool // the requester may modify words in the responder's memory
	Delegation bool // delegation counters
}

// agreedExtensions returns the extensions enabled between ends that sent these blocks: those that
// both ends set, with all their requirements. depth is the number of atomic operations that the
// requester can have outstanding: the lower of its ORD and the responder's IRD.
func agreedExtensions(a, b cmpriv.Extension, depth int) (on Extensions) {
	if a.Immediate && b.Immediate {
		on.Immediate = min(a.ImmediateRecvs, b.ImmediateRecvs)
	}
	on.Atomics = a.Atomics && b.Atomics && depth > 0
	on.Delegation = a.Delegation && b.Delegation && on.Immediate > 0 && on.Atomics
	return on
}

// atomicDepth returns the number of atomic operations that the requester may have outstanding on a
// connection. A provider that does not report a limit has none.
func atomicDepth(conn rdma.Registrar, responder bool) int {
	d, ok := conn.(rdma.ReadDepth)
	if !ok {
		return math.MaxInt
	}
	ird, ord := d.ReadDepth()
	if responder {
		return ird
	}
	return ord
}

// offerAsRequester adds a requester's offers to a connection that is about to be dialed, and
// returns its ExtensionConn, or nil if nothing is offered.
func (x *ExtensionConfig) offerAsRequester(c *ClientConn, cc *rdma.ConnConfig) *ExtensionConn {
	if x == nil {
		return nil
	}
	l := &ExtensionConn{cfg: x, client: c, block: x.offerBlock()}
	cc.PrivateData = l.block.AppendTo(cc.PrivateData)
	cc.Immediate = l.block.Immediate
	return l
}

// offerAsResponder adds a responder's offers to a connection that is about to
// be accepted, for a requester with the given private data. It returns the
// connection's ExtensionConn, or nil if either end sends no block.
//
// A connection's counters are advertised when it is accepted, and registered
// only with it, so they are created in between. They are not offered to a
// requester that cannot use them, nor to a party that has used up its share.
func (x *ExtensionConfig) offerAsResponder(private []byte, cc *rdma.ConnConfig, budget *fairshare.Part, log *slog.Logger) *ExtensionConn {
	if x == nil {
		return nil
	}
	theirs, ok := cmpriv.ParseExtension(private)
	if !ok {
		return nil
	}
	l := &ExtensionConn{cfg: x, block: x.offerBlock(), peer: theirs}
	if agreedExtensions(l.block, theirs, 0).Immediate > 0 {
		cc.Immediate = true
		cc.Recvs += x.ImmediateRecvs
	}
	message := cc.PrivateData
	cc.Prepare = func(conn rdma.Registrar) []byte {
		if l.block.Delegation = agreedExtensions(l.block, theirs, atomicDepth(conn, true)).Delegation; l.block.Delegation {
			if err := l.addCounters(conn, budget); err != nil {
				log.Warn("cannot offer delegation counters on a connection; its client caches without delegations", "err", err)
			}
		}
		return l.block.AppendTo(message)
	}
	return l
}
