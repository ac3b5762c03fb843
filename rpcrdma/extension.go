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

// An ExtensionConfig holds the offers of one end to a peer of this project
// beyond the standards, in a block behind its private data (cmpriv.Extension).
// The requester always sends the block; the responder only to a requester that
// did. With a peer that knows no block, no extension is used. The zero value
// offers nothing, and only identifies this end to the peer.
type ExtensionConfig struct {
	// ImmediateRecvs is the number of receives that are always posted for
	// Immediate Data, beyond those for calls and replies of both directions. 0
	// means that Immediate Data is not taken; below 0 or above 65535 is an
	// error.
	ImmediateRecvs int

	// Atomics means for a requester that it uses atomic operations, and for a
	// responder that it has memory for them.
	Atomics bool

	// Delegation offers delegation counters, which need both of the above.
	Delegation bool

	// Counters is the number of 64-bit words that a responder has for the
	// delegation counters of each connection: from 2 to 2^24. They take memory
	// if the requester wants them, a page when a word of it is first used. All
	// counters are charged: a party has at most an eighth of its share of
	// Server.MaxMemory in addition, but always enough for one connection.
	// Connections beyond that are offered none. A requester has no counters.
	Counters int

	// Attach is called for each connection on which both ends take Immediate
	// Data, before any arrives. It returns the handler of that data, which must
	// not be nil. The ExtensionConn reports the other extensions that are on.
	// Attach must not make calls. It must not be nil if ImmediateRecvs is set.
	Attach func(*ExtensionConn) ExtensionHandler
}

func (x *ExtensionConfig) check(responder bool) error {
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

// block returns the offers of x, before the peer is known.
func (x *ExtensionConfig) block() cmpriv.Extension {
	return cmpriv.Extension{
		Immediate: x.ImmediateRecvs > 0, Atomics: x.Atomics, Delegation: x.Delegation, ImmediateRecvs: x.ImmediateRecvs,
	}
}

// Extensions are the extensions that are on for one connection.
type Extensions struct {
	Immediate  int  // how many messages of Immediate Data may be unanswered; 0: it is off
	Atomics    bool // the requester may change words of the responder's memory
	Delegation bool // delegation counters
}

// agree returns the extensions that are on between ends that sent these blocks:
// those that both ends set, with all their requirements. depth is how many
// atomic operations the requester can have outstanding: the lower of its ORD
// and the responder's IRD.
func agree(a, b cmpriv.Extension, depth int) (on Extensions) {
	if a.Immediate && b.Immediate {
		on.Immediate = min(a.ImmediateRecvs, b.ImmediateRecvs)
	}
	on.Atomics = a.Atomics && b.Atomics && depth > 0
	on.Delegation = a.Delegation && b.Delegation && on.Immediate > 0 && on.Atomics
	return on
}

// depth returns how many atomic operations of the requester may be outstanding
// on a connection. A provider that does not report a limit has none.
func depth(conn rdma.Registrar, responder bool) int {
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

// request adds a requester's offers to a connection that is about to be made,
// and returns its link, or nil if nothing is offered.
func (x *ExtensionConfig) request(c *ClientConn, cc *rdma.ConnConfig) *ExtensionConn {
	if x == nil {
		return nil
	}
	l := &ExtensionConn{cfg: x, client: c, block: x.block()}
	cc.PrivateData = l.block.AppendTo(cc.PrivateData)
	cc.Immediate = l.block.Immediate
	return l
}

// accept adds a responder's offers to a connection that is about to be
// accepted, for a requester with the given private data. It returns the
// connection's link, or nil if either end sends no block.
//
// The counters of a connection are advertised with its acceptance, and
// registered with it alone, so they are made in between. They are not offered
// to a requester that cannot use them, nor to a party that has used up its room
// for them.
func (x *ExtensionConfig) accept(private []byte, cc *rdma.ConnConfig, room *fairshare.Part, log *slog.Logger) *ExtensionConn {
	if x == nil {
		return nil
	}
	theirs, ok := cmpriv.ParseExtension(private)
	if !ok {
		return nil
	}
	l := &ExtensionConn{cfg: x, block: x.block(), peer: theirs}
	if agree(l.block, theirs, 0).Immediate > 0 {
		cc.Immediate = true
		cc.Recvs += x.ImmediateRecvs
	}
	message := cc.PrivateData
	cc.Prepare = func(conn rdma.Registrar) []byte {
		if l.block.Delegation = agree(l.block, theirs, depth(conn, true)).Delegation; l.block.Delegation {
			if err := l.count(conn, room); err != nil {
				log.Warn("no delegation counters", "err", err)
			}
		}
		return l.block.AppendTo(message)
	}
	return l
}
