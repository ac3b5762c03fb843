package delegation

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A concurrentGrantor is a Grantor used by concurrent goroutines, with the Table of a server.
type concurrentGrantor struct {
	t     testing.TB
	g     *Grantor
	table *recall.Table
	clock atomic.Int64
	held  [5]atomic.Int64 // number of grants held by clients, for each object
	ended atomic.Int64
}

// currentTime advances so slowly that no deadline passes while a goroutine waits for a
// processor.
func (c *concurrentGrantor) currentTime() time.Duration { return time.Duration(c.clock.Add(1)) }

func (c *concurrentGrantor) runEffects(fx Effects) {
	for _, r := range fx.Recalls {
		r.Conn.Owner.(chan Recall) <- r // the channel holds the whole window
	}
	assert.Empty(c.t, fx.Cuts)
	for _, o := range fx.Ended {
		c.ended.Add(1)
		o.(*tableObject).Return()
	}
}

// A tableObject is an object in a recall.Table.
type tableObject struct {
	recall.Holder
	table       *recall.Table
	acquisition *Acquisition
}

func (o *tableObject) Hold(key []byte) bool { return o.table.Hold(&o.Holder, key) }

func (c *concurrentGrantor) prepareObject(conn *Conn, key []byte) *tableObject {
	o := &tableObject{table: c.table}
	o.Holder = recall.Holder{Conn: conn, IgnoreOwner: true, RetryPause: lease, Recall: func(by recall.Changer) {
		from, _ := by.Conn.(*Conn)
		c.runEffects(c.g.Change(o.acquisition, from, c.currentTime()))
	}}
	a, why, fx := c.g.Prepare(conn, key, o, c.currentTime())
	c.runEffects(fx)
	if why != 0 {
		return nil
	}
	o.acquisition = a
	return o
}

// grantObject grants an object, and reports whether that was possible.
func (c *concurrentGrantor) grantObject(conn *Conn, key []byte) (gt Grant, ok bool) {
	o := c.prepareObject(conn, key)
	if o == nil {
		return Grant{}, false
	}
	return c.commitObject(o)
}

func (c *concurrentGrantor) commitObject(o *tableObject) (gt Grant, ok bool) {
	gt, why, fx := c.g.Commit(o.acquisition, c.currentTime())
	c.runEffects(fx)
	if why != 0 {
		c.g.Cancel(o.acquisition)
		o.Return()
	}
	return gt, why == 0
}

// runClient acquires, uses and returns grants.
func (c *concurrentGrantor) runClient(conn *Conn, words *Region, stop <-chan struct{}) {
	grants := make(map[Grant]int)
	for {
		select {
		case r := <-conn.Owner.(chan Recall):
			gt := Grant{r.Slot, r.Generation}
			c.held[grants[gt]].Add(-1)
			delete(grants, gt)
			c.g.Sent(r, c.currentTime())
			c.runEffects(c.g.Immediate(conn, returnedMessage(gt)))
			continue
		case <-stop:
			return
		default:
		}
		runtime.Gosched()
		OpRenew.Operands().Do(rdma.OpFetchAdd, wordAt(c.t, words, LeaseWord))
		i := rand.IntN(len(c.held))
		if gt, ok := c.grantObject(conn, []byte{byte(i)}); ok {
			grants[gt] = i
			c.held[i].Add(1)
			c.runEffects(c.g.Replied(conn, gt))
		}
	}
}

func wordAt(t testing.TB, r *Region, n int) *atomic.Uint64 {
	w, err := rdma.Word(r.memory, n*rdma.WordLen)
	require.NoError(t, err)
	return w
}

func newConcurrentGrantor(t testing.TB, config Config) *concurrentGrantor {
	g, err := NewGrantor(config)
	require.NoError(t, err)
	c := &concurrentGrantor{t: t, g: g}
	c.table = recall.New(recall.Config{Now: c.currentTime})
	return c
}

// TestParallel checks that no client holds an object during its change, with
// clients, changes and the clock running concurrently.
func TestParallel(t *testing.T) {
	const changes, changers, clients = 500, 4, 3
	c := newConcurrentGrantor(t, Config{Slots: 4, Grants: 9})
	stop := make(chan struct{})
	var workers, others sync.WaitGroup
	var conns []*Conn
	for range clients {
		r, err := NewRegion(make([]byte, 4*rdma.WordLen))
		require.NoError(t, err)
		conn := c.g.Attach(r, 2, strconv.Itoa(len(conns)), make(chan Recall, 2))
		conns = append(conns, conn)
		others.Go(func() { c.runClient(conn, r, stop) })
	}
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				c.runEffects(c.g.Tick(c.currentTime()))
				c.g.Next()
				c.g.Stats()
				runtime.Gosched()
			}
		}
	})
	for range changers {
		workers.Go(func() {
			var ch recall.Change
			for n := 0; n < changes || c.g.Stats().Recalled == 0; n++ { // clients may be slow to start
				i := rand.IntN(len(c.held))
				for !c.table.Begin(&ch, recall.Changer{}, []byte{byte(i)}) {
					assert.NoError(t, c.table.Wait(t.Context(), &ch, fairshare.Name{}))
				}
				assert.Zero(t, c.held[i].Load())
				runtime.Gosched()
				assert.Zero(t, c.held[i].Load())
				c.table.Done(&ch)
			}
		})
	}
	workers.Wait()
	close(stop)
	others.Wait()
	for _, conn := range conns {
		c.runEffects(c.g.Disconnect(conn, true, c.currentTime()))
	}
	st := c.g.Stats()
	assert.Zero(t, st.InForce)
	assert.EqualValues(t, st.Granted, c.ended.Load())
	assert.Zero(t, c.table.Len())
}

// newOwnChange returns a client's change of an object that only it holds.
func newOwnChange(t testing.TB) (change func()) {
	key := make([]byte, 32)
	c := newConcurrentGrantor(t, Config{})
	conn := c.g.Attach(&memWords{make([]uint64, 2)}, 1, "", nil)
	_, ok := c.grantObject(conn, key)
	require.True(t, ok)
	var ch recall.Change
	return func() {
		c.table.Begin(&ch, recall.Changer{Conn: conn}, key)
		c.table.Done(&ch)
	}
}

// TestChangeAllocs checks that a client's change of an object that only it holds costs no
// allocation.
func TestChangeAllocs(t *testing.T) { assert.Zero(t, testing.AllocsPerRun(100, newOwnChange(t))) }

// BenchmarkOwnChange measures a client's change of an object that only it holds.
func BenchmarkOwnChange(b *testing.B) {
	change := newOwnChange(b)
	b.ReportAllocs()
	for b.Loop() {
		change()
	}
}
