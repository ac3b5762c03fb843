package rpcrdma

import (
	"errors"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/cmpriv"
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

	// Attach is called for each connection on which both ends take Immediate
	// Data, before any comes, and returns who takes it. It must not be nil
	// where ImmediateRecvs is set.
	Attach func(*Link) LinkHandler
}

func (x *ExtensionConfig) check() error {
	switch {
	case x == nil:
		return nil
	case x.ImmediateRecvs < 0 || x.ImmediateRecvs > math.MaxUint16:
		return fmt.Errorf("rpcrdma: %d receives for Immediate Data are not between 0 and %d", x.ImmediateRecvs, math.MaxUint16)
	case x.ImmediateRecvs > 0 && x.Attach == nil:
		return errors.New("rpcrdma: receives for Immediate Data, and nobody to take it")
	}
	return nil
}

func (x *ExtensionConfig) block() cmpriv.Extension {
	return cmpriv.Extension{Immediate: x.ImmediateRecvs > 0, Atomics: x.Atomics, ImmediateRecvs: x.ImmediateRecvs}
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
func depth(conn rdma.Conn, responder bool) int {
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
func (x *ExtensionConfig) request(cc *rdma.ConnConfig) *Link {
	if x == nil {
		return nil
	}
	l := &Link{cfg: x}
	ours := x.block()
	cc.PrivateData = ours.AppendTo(cc.PrivateData)
	cc.Immediate = ours.Immediate
	return l
}

// accept adds to a connection to be accepted what a responder offers to a
// requester with the given private data, and returns its link: nil where one of
// them offers nothing.
func (x *ExtensionConfig) accept(private []byte, cc *rdma.ConnConfig) *Link {
	if x == nil {
		return nil
	}
	theirs, ok := cmpriv.ParseExtension(private)
	if !ok {
		return nil
	}
	l := &Link{cfg: x, responder: true}
	ours := x.block()
	cc.PrivateData = ours.AppendTo(cc.PrivateData)
	if agree(ours, theirs, 0).Immediate > 0 {
		cc.Immediate = true
		cc.Recvs += x.ImmediateRecvs
	}
	return l
}
