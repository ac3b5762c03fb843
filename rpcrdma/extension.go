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

// An ExtensionConfig is what one end offers to a peer of this project beyond the
// standards, in a block behind its private data (cmpriv.Extension). The requester
// always sends it; the responder only to a requester that did. Peers that know no
// block never see anything of it in use. The zero value offers nothing, and lets
// the peer know whom it talks to.
type ExtensionConfig struct {
	// ImmediateRecvs is the number of receives that are always posted for
	// Immediate Data, beyond those for calls and replies of both directions.
	// 0 means that none is taken; below 0 or above 65535 is an error.
	ImmediateRecvs int

	// Atomics says of a requester that it uses atomic operations, and of a
	// responder that it has memory for them.
	Atomics bool

	// Delegation offers delegation counters, which need both of the above.
	Delegation bool

	// Counters is the number of words of 64 bits that a responder has for
	// the delegation counters of each connection: from 2 to 2^24. They take
	// memory where the requester wants them, a page when a word of it is
	// used for the first time. All of them count: a party has no more than an
	// eighth of what it may have of Server.MaxMemory beside that, but enough for
	// one connection, and its other connections are offered none. A requester has
	// none.
	Counters int

	// Attach is called for each connection on which both ends take Immediate
	// Data, before any comes, and returns who takes it, not nil. What is on
	// beside that, the ExtensionConn tells. It must not make calls, and must not be nil
	// where ImmediateRecvs is set.
	Attach func(*ExtensionConn) ExtensionHandler
}

func (x *ExtensionConfig) check(responder bool) error {
	switch {
	case x == nil:
		return nil
	case x.ImmediateRecvs < 0 || x.ImmediateRecvs > math.MaxUint16:
		return fmt.Errorf("rpcrdma: %d receives for Immediate Data are not between 0 and %d", x.ImmediateRecvs, math.MaxUint16)
	case x.ImmediateRecvs > 0 && x.Attach == nil:
		return errors.New("rpcrdma: receives for Immediate Data, and nobody to take it")
	case x.Delegation && (x.ImmediateRecvs == 0 || !x.Atomics):
		return errors.New("rpcrdma: delegation counters need Immediate Data and atomic operations")
	case x.Delegation && responder && (x.Counters < minCounters || x.Counters > maxCounters):
		return fmt.Errorf("rpcrdma: %d delegation counters are not between %d and %d", x.Counters, minCounters, maxCounters)
	}
	return nil
}

// block returns what x offers, without knowing the peer.
func (x *ExtensionConfig) block() cmpriv.Extension {
	return cmpriv.Extension{
		Immediate: x.ImmediateRecvs > 0, Atomics: x.Atomics, Delegation: x.Delegation, ImmediateRecvs: x.ImmediateRecvs,
	}
}

// Extensions is what is on, beyond the standards, on one connection.
type Extensions struct {
	Immediate  int  // how many messages of Immediate Data may be unanswered; 0: it is off
	Atomics    bool // the requester may change words of the responder's memory
	Delegation bool // delegation counters
}

// agree returns what is on where the ends sent these blocks: what both set, with
// all that it needs. depth is how many atomic operations the requester can have
// outstanding: the lower of its ORD and the responder's IRD.
func agree(a, b cmpriv.Extension, depth int) (on Extensions) {
	if a.Immediate && b.Immediate {
		on.Immediate = min(a.ImmediateRecvs, b.ImmediateRecvs)
	}
	on.Atomics = a.Atomics && b.Atomics && depth > 0
	on.Delegation = a.Delegation && b.Delegation && on.Immediate > 0 && on.Atomics
	return on
}

// depth returns how many atomic operations of the requester's may be outstanding
// on a connection. Providers that do not tell have no limit.
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

// request adds to a connection to be made what a requester offers, and returns
// its link: nil where that is nothing.
func (x *ExtensionConfig) request(c *ClientConn, cc *rdma.ConnConfig) *ExtensionConn {
	if x == nil {
		return nil
	}
	l := &ExtensionConn{cfg: x, client: c, block: x.block()}
	cc.PrivateData = l.block.AppendTo(cc.PrivateData)
	cc.Immediate = l.block.Immediate
	return l
}

// accept adds to a connection to be accepted what a responder offers to a
// requester with the given private data, and returns its link: nil where one of
// them offers nothing.
//
// The counters of a connection are advertised with its acceptance, and registered
// with it alone, so they are made in between. Who cannot use them is not told of
// any, and neither is a party that has used up its room for them.
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
