package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// The fake server's procedures that read and increment a number.
const (
	procRead = 100 + iota
	procChange
)

// A cachedNumber is an object on the server, with the value that a client has
// cached.
type cachedNumber struct {
	Object
	fh     string
	server *atomic.Int64

	mu              sync.Mutex
	grants, changes int // so far
	grant           int // current grant; 0: none
	changing        int // changes by this client in progress
	known           bool
	value           int64
}

func dropNumber(o *Object, done func()) {
	n := o.Owner().(*cachedNumber)
	time.Sleep(randomUpTo(200 * time.Millisecond))
	n.mu.Lock()
	n.known, n.grant = false, 0
	n.mu.Unlock()
	done()
}

// callProc sends a call about n.
func (r *testClient) callProc(n *cachedNumber, proc uint32) (int64, error) {
	x := oncrpc.Exchange{
		Prog: delegation.Program, Vers: delegation.Version, Proc: proc,
		Args: xdr.AppendOpaque(nil, []byte(n.fh)), MaxResults: 8,
	}
	defer x.Release()
	if err := r.lines[0].Call(context.Background(), &x); err != nil {
		return 0, err
	}
	return int64(x.Results.Uint64()), x.Results.Done()
}

// readNumber returns the number, from the cache if permitted.
func (r *testClient) readNumber(n *cachedNumber) (v int64, cached bool) {
	defer n.Close()
	if n.Open(r.t.Context()) {
		if v, cached = n.cachedValue(); cached {
			return v, true
		}
	} else if g, _ := r.Acquire(r.t.Context(), &n.Object, delegation.FileData, nobody); g.Types != 0 {
		n.storeGranted()
		n.Close()
	}
	return r.fetchNumber(n), false
}

// storeGranted records a grant, unless already dropped.
func (n *cachedNumber) storeGranted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Types() != 0 {
		n.grants++
		n.grant = n.grants
	}
}

func (n *cachedNumber) cachedValue() (int64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.value, n.known
}

// fetchNumber reads the number by a call, and caches the value if permitted (rule c).
func (r *testClient) fetchNumber(n *cachedNumber) int64 {
	n.mu.Lock()
	grant, changes, quiet := n.grant, n.changes, n.changing == 0
	n.mu.Unlock()
	v, err := r.callProc(n, procRead)
	if err != nil {
		return n.server.Load() // the value does not matter
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if grant != 0 && grant == n.grant && quiet && changes == n.changes {
		n.known, n.value = true, v
	}
	return v
}

// changeNumber increments the number by a call.
func (r *testClient) changeNumber(n *cachedNumber) {
	n.mu.Lock()
	n.known = false
	n.changing++
	n.changes++
	n.mu.Unlock()
	_, _ = r.callProc(n, procChange)
	n.mu.Lock()
	n.changing--
	n.mu.Unlock()
}

// A numberServer is a server that stores numbers, with the clients that read
// and change them.
type numberServer struct {
	*testClient
	all [4]atomic.Int64
}

func (s *numberServer) valueOf(fh []byte) *atomic.Int64 { return &s.all[int(fh[0]-'a')] }

// randomUpTo returns a random, mostly short time.
func randomUpTo(d time.Duration) time.Duration {
	part := rand.Float64()
	return time.Duration(float64(d) * part * part * part)
}

// serveValue serves a READ or a change.
func (s *numberServer) serveValue(by *fakeServerConn, proc uint32, fh []byte) (v int64) {
	n := s.valueOf(fh)
	if proc == procRead {
		v = n.Load()
		time.Sleep(randomUpTo(100 * time.Millisecond))
		return v
	}
	s.server.changeBy(by.conn, string(fh), func() {
		time.Sleep(randomUpTo(50 * time.Millisecond))
		v = n.Add(1)
	})
	return v
}

// runClient runs one client until end, and returns the number of reads that
// were served from its cache.
func (s *numberServer) runClient(end time.Time) (served int64) {
	r := &testClient{t: s.t, server: s.server, listen: s.listen}
	clock := s.server.clock
	r.Set = New(Config{Drop: dropNumber, Now: clock, Log: quiet})
	r.connectLine()
	var cache [len(s.all)]*cachedNumber
	for i := range cache {
		cache[i] = &cachedNumber{fh: string(rune('a' + i)), server: &s.all[i]}
		r.Init(&cache[i].Object, []byte(cache[i].fh), cache[i])
	}
	var users sync.WaitGroup
	var hits atomic.Int64
	for range 3 {
		users.Go(func() {
			for time.Now().Before(end) {
				n := cache[rand.IntN(len(cache))]
				if rand.IntN(20) == 0 {
					r.changeNumber(n)
					continue
				}
				from := n.server.Load()
				v, cached := r.readNumber(n)
				assert.GreaterOrEqual(r.t, v, from, "stale, cached %v", cached)
				if cached {
					hits.Add(1)
				}
				time.Sleep(randomUpTo(time.Second))
			}
		})
	}
	users.Go(func() {
		for time.Now().Before(end) {
			r.causeTrouble()
			time.Sleep(randomUpTo(4 * lease))
		}
	})
	users.Wait()
	r.closeAll()
	return hits.Load()
}

// causeTrouble disturbs the connection at random.
func (r *testClient) causeTrouble() {
	c := r.lastConn()
	switch rand.IntN(4) {
	case 0:
		c.Abort(context.Canceled)
	case 1:
		resume := c.Pause() // nothing arrives until then
		time.Sleep(randomUpTo(2 * lease))
		resume()
	default:
		c.Delay(randomUpTo(lease / 4))
	}
}

// TestNothingStale checks that no stale value is ever served, despite all
// disturbances of two clients' connections.
func TestNothingStale(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			runTest(t, func(t *testing.T, r *testClient) {
				s := &numberServer{testClient: r}
				r.server.data = s.serveValue
				end := time.Now().Add(10 * time.Minute)
				var clients sync.WaitGroup
				for range 2 {
					clients.Go(func() {
						served := s.runClient(end)
						assert.Greater(t, served, int64(100), "uses without a call")
					})
				}
				clients.Go(func() { // on no connection
					for time.Now().Before(end) {
						n := rand.IntN(len(s.all))
						r.server.changeObject(string(rune('a'+n)), func() { s.all[n].Add(1) })
						time.Sleep(randomUpTo(10 * time.Second))
					}
				})
				clients.Wait()
				synctest.Wait()
				t.Logf("%+v, cut %v", r.server.grantor.Stats(), r.server.cuts)
			})
		})
	}
}
