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

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A concurrentGrantor is a Grantor used by concurrent goroutines.
type concurrentGrantor struct {
	t     *testing.T
	g     *Grantor
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
	for _, ch := range fx.Ready {
		close(ch.Waker.(chan struct{}))
	}
	assert.Empty(c.t, fx.Cuts)
	c.ended.Add(int64(len(fx.Ended)))
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
		a, why, fx := c.g.Prepare(conn, []byte{byte(i)}, c.currentTime())
		c.runEffects(fx)
		if why != 0 {
			continue
		}
		gt, why, fx := c.g.Commit(a, c.currentTime())
		c.runEffects(fx)
		if why == 0 {
			grants[gt] = i
			c.held[i].Add(1)
			c.runEffects(c.g.Replied(conn, gt))
		}
	}
}

func wordAt(t *testing.T, r *Region, n int) *atomic.Uint64 {
	w, err := rdma.Word(r.memory, n*rdma.WordLen)
	require.NoError(t, err)
	return w
}

// TestParallel checks that no client holds an object during its change, with
// clients, changes and the clock running concurrently.
func TestParallel(t *testing.T) {
	const changes, changers, clients = 500, 4, 3
	c := &concurrentGrantor{t: t, g: newTestGrantor(t, Config{Slots: 4, Grants: 9})}
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
			var ch Change
			for n := 0; n < changes || c.g.Stats().Recalled == 0; n++ { // clients may be slow to start
				i, wake := rand.IntN(len(c.held)), make(chan struct{})
				ch.Waker = wake
				ready, fx := c.g.Change(&ch, nil, []byte{byte(i)}, c.currentTime())
				c.runEffects(fx)
				if !ready {
					<-wake
				}
				assert.Zero(t, c.held[i].Load())
				runtime.Gosched()
				assert.Zero(t, c.held[i].Load())
				c.g.Done(&ch)
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
	assert.Empty(t, c.g.objects)
}

// BenchmarkOwnChange measures a client's change of an object that only it holds.
func BenchmarkOwnChange(b *testing.B) {
	key := make([]byte, 32)
	g := newTestGrantor(b, Config{})
	c, _ := attachConn(g, 1)
	grantObject(b, g, c, string(key), 0)
	b.ReportAllocs()
	var ch Change
	for b.Loop() {
		g.Change(&ch, c, key, 0)
		g.Done(&ch)
	}
}
