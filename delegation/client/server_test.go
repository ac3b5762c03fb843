package client

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A keeper is a server with a Grantor and no file system: an object is its handle.
type keeper struct {
	t     testing.TB
	g     *delegation.Grantor
	clock func() time.Duration
	ahead atomic.Int64 // of the client's clock
	slots int

	// Replies to ACQUIRE; if nil, the Grantor decides.
	fail   error
	answer func(served *served, args *delegation.AcquireArgs) *delegation.AcquireRes

	// data serves procedures other than those of delegation.
	data func(s *served, proc uint32, fh []byte) int64

	mu     sync.Mutex
	timer  *time.Timer
	served []*served
	cuts   []error
}

func newKeeper(t testing.TB, clock func() time.Duration, lease time.Duration) *keeper {
	k := &keeper{t: t, clock: clock, slots: 8}
	var err error
	k.g, err = delegation.NewGrantor(delegation.Config{Lease: lease, Slots: k.slots})
	require.NoError(t, err)
	return k
}

func (k *keeper) now() time.Duration { return k.clock() + time.Duration(k.ahead.Load()) }

func (k *keeper) extension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{
		ImmediateRecvs: window, Atomics: true, Delegation: k.slots > 0, Counters: k.slots, Attach: k.attach,
	}
}

// served is one connection of the server.
type served struct {
	k    *keeper
	link *rpcrdma.ExtensionConn
	conn *delegation.Conn
}

func (k *keeper) attach(link *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	s := &served{k: k, link: link}
	if link.Extensions().Delegation {
		region, err := delegation.NewRegion(link.Counters())
		require.NoError(k.t, err)
		s.conn = k.g.Attach(region, link.Extensions().Immediate, "", s)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served = append(k.served, s)
	return s
}

func (s *served) Immediate(word [8]byte) { s.k.do(s.k.g.Immediate(s.conn, word)) }

func (s *served) Closed(err error) {
	if s.conn != nil {
		s.k.do(s.k.g.Disconnect(s.conn, err == nil || errors.Is(err, io.EOF), s.k.now()))
	}
}

// last returns the latest connection.
func (k *keeper) last() *served {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.served[len(k.served)-1]
}

// recall sends a recall unknown to the Grantor.
func (s *served) recall(slot, generation uint32) {
	m := delegation.Immediate{Kind: delegation.KindRecall, Slot: slot, Generation: generation}
	assert.NoError(s.k.t, s.link.PostImmediate(m.Bytes(), nil, 0))
}

// sent reports to the Grantor that a recall was sent.
type sent struct {
	k *keeper
	delegation.Recall
}

func (s *sent) Complete(c rdma.Completion) {
	if c.Err == nil {
		s.k.g.Sent(s.Recall, s.k.now())
		s.k.tick()
	}
}

// do carries out the Grantor's effects.
func (k *keeper) do(fx delegation.Effects) {
	for _, r := range fx.Recalls {
		_ = r.Conn.Owner.(*served).link.PostImmediate(r.Bytes(), &sent{k, r}, 0)
	}
	for _, c := range fx.Cuts {
		k.mu.Lock()
		k.cuts = append(k.cuts, c.Err)
		k.mu.Unlock()
		c.Conn.Owner.(*served).link.Abort(c.Err)
	}
	for _, ch := range fx.Ready {
		close(ch.Waker.(chan struct{}))
	}
	k.tick()
}

// tick schedules the Grantor's next Tick.
func (k *keeper) tick() {
	at, ok := k.g.Next()
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timer = time.AfterFunc(at-k.now(), func() { k.do(k.g.Tick(k.now())) })
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
	}
}

// change changes an object on behalf of a client without a connection. It
// returns how long the change took, when the change is done.
func (k *keeper) change(fh string, do func()) time.Duration { return k.changeBy(nil, fh, do) }

func (k *keeper) changeBy(conn *delegation.Conn, fh string, do func()) time.Duration {
	began, ready := k.now(), make(chan struct{})
	ch := &delegation.Change{Waker: ready}
	at, fx := k.g.Change(ch, conn, []byte(fh), began)
	k.do(fx)
	if !at {
		<-ready
	}
	do()
	k.g.Done(ch)
	return k.now() - began
}

// ServeRPC serves ACQUIRE (oncrpc.Handler).
func (k *keeper) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc == delegation.ProcNull {
		return c.Args.Done()
	}
	s := rpcrdma.ExtensionConnOf(c.Peer).Handler().(*served)
	if c.Proc != delegation.ProcAcquire {
		v := k.data(s, c.Proc, c.Args.Opaque(delegation.MaxHandle))
		r.Head = xdr.AppendUint64(r.Head, uint64(v))
		return c.Args.Done()
	}
	var args delegation.AcquireArgs
	args.Decode(&c.Args)
	if err := c.Args.Done(); err != nil {
		return err
	}
	if k.fail != nil {
		return k.fail
	}
	var res *delegation.AcquireRes
	if k.answer != nil {
		res = k.answer(s, &args)
	}
	if res == nil {
		res = s.acquire(&args, r)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (s *served) acquire(args *delegation.AcquireArgs, r *oncrpc.Reply) *delegation.AcquireRes {
	a, why, fx := s.k.g.Prepare(s.conn, args.Handle, s.k.now())
	s.k.do(fx)
	if why != 0 {
		return &delegation.AcquireRes{Status: delegation.StatusRefused, Reason: why}
	}
	gt, why, fx := s.k.g.Commit(a, s.k.now())
	s.k.do(fx)
	if why != 0 {
		return &delegation.AcquireRes{Status: delegation.StatusRefused, Reason: why}
	}
	r.Posted = func() { s.k.do(s.k.g.Replied(s.conn, gt)) }
	return grantOf(gt.Slot, gt.Generation, args.Types, s.k.g.Lease())
}

// grantOf is a reply that grants; the attributes begin with the slot.
func grantOf(slot, generation uint32, types delegation.Types, lease time.Duration) *delegation.AcquireRes {
	attr := make([]byte, delegation.AttrLen)
	attr[0] = byte(slot)
	return &delegation.AcquireRes{
		Slot: slot, Generation: generation, Types: types,
		LeaseMS: uint32(min(lease.Milliseconds(), math.MaxUint32)), Attr: attr,
	}
}

func refused(why delegation.Reason) *delegation.AcquireRes {
	return &delegation.AcquireRes{Status: delegation.StatusRefused, Reason: why}
}
