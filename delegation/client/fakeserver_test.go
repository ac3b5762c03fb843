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
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A fakeServer is a server with a Grantor and no file system: an object is its handle.
type fakeServer struct {
	t       testing.TB
	grantor *delegation.Grantor
	table   *recall.Table
	clock   func() time.Duration
	ahead   atomic.Int64 // offset from the client's clock
	slots   int

	// Replies to ACQUIRE; if nil, the Grantor decides.
	fail   error
	answer func(served *fakeServerConn, args *delegation.AcquireArgs) *delegation.AcquireRes

	// data serves procedures other than delegation's.
	data func(s *fakeServerConn, proc uint32, fh []byte) int64

	mu     sync.Mutex
	timer  *time.Timer
	served []*fakeServerConn
	cuts   []error
}

func newFakeServer(t testing.TB, clock func() time.Duration, lease time.Duration) *fakeServer {
	k := &fakeServer{t: t, clock: clock, slots: 8}
	var err error
	k.grantor, err = delegation.NewGrantor(delegation.Config{Lease: lease, Slots: k.slots})
	require.NoError(t, err)
	k.table = recall.New(recall.Config{Now: k.currentTime})
	return k
}

func (k *fakeServer) currentTime() time.Duration { return k.clock() + time.Duration(k.ahead.Load()) }

func (k *fakeServer) newExtension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{
		ImmediateRecvs: maxRecalls, Atomics: true, Delegation: k.slots > 0, Counters: k.slots, Attach: k.attachConn,
	}
}

// A fakeServerConn is one of the server's connections.
type fakeServerConn struct {
	k    *fakeServer
	link *rpcrdma.ExtensionConn
	conn *delegation.Conn
}

func (k *fakeServer) attachConn(link *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	s := &fakeServerConn{k: k, link: link}
	if link.Extensions().Delegation {
		region, err := delegation.NewRegion(link.Counters())
		require.NoError(k.t, err)
		s.conn = k.grantor.Attach(region, link.Extensions().Immediate, "", s)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served = append(k.served, s)
	return s
}

func (s *fakeServerConn) Immediate(word [8]byte) {
	s.k.applyEffects(s.k.grantor.Immediate(s.conn, word))
}

func (s *fakeServerConn) Closed(err error) {
	if s.conn != nil {
		s.k.applyEffects(s.k.grantor.Disconnect(s.conn, err == nil || errors.Is(err, io.EOF), s.k.currentTime()))
	}
}

// lastConn returns the latest connection.
func (k *fakeServer) lastConn() *fakeServerConn {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.served[len(k.served)-1]
}

// postRecall sends a recall unknown to the Grantor.
func (s *fakeServerConn) postRecall(slot, generation uint32) {
	m := delegation.Immediate{Kind: delegation.KindRecall, Slot: slot, Generation: generation}
	assert.NoError(s.k.t, s.link.PostImmediate(m.Bytes(), nil, 0))
}

// sentRecall reports to the Grantor that a recall was sent.
type sentRecall struct {
	k *fakeServer
	delegation.Recall
}

func (s *sentRecall) Complete(c rdma.Completion) {
	if c.Err == nil {
		s.k.grantor.Sent(s.Recall, s.k.currentTime())
		s.k.runTick()
	}
}

// applyEffects carries out the Grantor's effects.
func (k *fakeServer) applyEffects(fx delegation.Effects) {
	for _, r := range fx.Recalls {
		_ = r.Conn.Owner.(*fakeServerConn).link.PostImmediate(r.Bytes(), &sentRecall{k, r}, 0)
	}
	for _, c := range fx.Cuts {
		k.mu.Lock()
		k.cuts = append(k.cuts, c.Err)
		k.mu.Unlock()
		c.Conn.Owner.(*fakeServerConn).link.Abort(c.Err)
	}
	for _, o := range fx.Ended {
		o.(*heldObject).Return()
	}
	k.runTick()
}

// runTick schedules the Grantor's next Tick.
func (k *fakeServer) runTick() {
	at, ok := k.grantor.Next()
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timer = time.AfterFunc(at-k.currentTime(), func() { k.applyEffects(k.grantor.Tick(k.currentTime())) })
}

func (k *fakeServer) stopServer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
	}
}

// changeObject changes an object on behalf of a client without a connection. It
// returns the time that the change took, when it is done.
func (k *fakeServer) changeObject(fh string, do func()) time.Duration { return k.changeBy(nil, fh, do) }

func (k *fakeServer) changeBy(conn *delegation.Conn, fh string, do func()) time.Duration {
	began, by := k.currentTime(), recall.Changer{}
	if conn != nil {
		by.Conn = conn
	}
	var ch recall.Change
	for !k.table.Begin(&ch, by, []byte(fh)) {
		_ = k.table.Wait(context.Background(), &ch, fairshare.Name{}) // if too long, once more
	}
	do()
	k.table.Done(&ch)
	return k.currentTime() - began
}

// A heldObject is an object that a connection holds or acquires.
type heldObject struct {
	recall.Holder
	k           *fakeServer
	acquisition *delegation.Acquisition
}

func (o *heldObject) Hold(key []byte) bool { return o.k.table.Hold(&o.Holder, key) }

// grantObject grants an object, or returns a Reason.
func (s *fakeServerConn) grantObject(fh []byte) (delegation.Grant, delegation.Reason) {
	k := s.k
	o := &heldObject{k: k}
	o.Holder = recall.Holder{Conn: s.conn, IgnoreOwner: true, RetryPause: k.grantor.Lease(), Recall: func(by recall.Changer) {
		conn, _ := by.Conn.(*delegation.Conn)
		k.applyEffects(k.grantor.Change(o.acquisition, conn, k.currentTime()))
	}}
	a, why, fx := k.grantor.Prepare(s.conn, fh, o, k.currentTime())
	k.applyEffects(fx)
	if why != 0 {
		return delegation.Grant{}, why
	}
	o.acquisition = a
	gt, why, fx := k.grantor.Commit(a, k.currentTime())
	k.applyEffects(fx)
	if why != 0 {
		k.grantor.Cancel(a)
		o.Return()
	}
	return gt, why
}

// ServeRPC serves ACQUIRE (oncrpc.Handler).
func (k *fakeServer) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc == delegation.ProcNull {
		return c.Args.Done()
	}
	s := rpcrdma.ExtensionConnOf(c.Peer).Handler().(*fakeServerConn)
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
		res = s.serveAcquire(&args, r)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (s *fakeServerConn) serveAcquire(args *delegation.AcquireArgs, r *oncrpc.Reply) *delegation.AcquireRes {
	gt, why := s.grantObject(args.Handle)
	if why != 0 {
		return refusedRes(why)
	}
	r.Posted = func() { s.k.applyEffects(s.k.grantor.Replied(s.conn, gt)) }
	return grantRes(gt.Slot, gt.Generation, args.Types, s.k.grantor.Lease())
}

// grantRes is a reply that grants; the attributes begin with the slot.
func grantRes(slot, generation uint32, types delegation.Types, lease time.Duration) *delegation.AcquireRes {
	attr := make([]byte, delegation.AttrLen)
	attr[0] = byte(slot)
	return &delegation.AcquireRes{
		Slot: slot, Generation: generation, Types: types,
		LeaseMS: uint32(min(lease.Milliseconds(), math.MaxUint32)), Attr: attr,
	}
}

func refusedRes(why delegation.Reason) *delegation.AcquireRes {
	return &delegation.AcquireRes{Status: delegation.StatusRefused, Reason: why}
}
