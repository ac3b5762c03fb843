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
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Procedures of the keeper that read and increment a number.
const (
	procRead = 100 + iota
	procChange
)

// A number is an object of the server, with the value that a client has cached.
type number struct {
	Object
	fh     string
	server *atomic.Int64

	mu              sync.Mutex
	grants, changes int // so far
	grant           int // current grant; 0: none
	changing        int // changes by this client under way
	known           bool
	value           int64
}

func dropNumber(o *Object, done func()) {
	n := o.Owner().(*number)
	time.Sleep(upTo(200 * time.Millisecond))
	n.mu.Lock()
	n.known, n.grant = false, 0
	n.mu.Unlock()
	done()
}

// call makes a call about n.
func (r *rig) call(n *number, proc uint32) (int64, error) {
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

// read returns the number, from the cache if permitted.
func (r *rig) read(n *number) (v int64, cached bool) {
	defer n.Close()
	if n.Open(r.t.Context()) {
		if v, cached = n.cached(); cached {
			return v, true
		}
	} else if g, _ := r.Acquire(r.t.Context(), &n.Object, delegation.FileData, nobody); g.Types != 0 {
		n.granted()
		n.Close()
	}
	return r.fetch(n), false
}

// granted records a grant, unless already dropped.
func (n *number) granted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Types() != 0 {
		n.grants++
		n.grant = n.grants
	}
}

func (n *number) cached() (int64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.value, n.known
}

// fetch reads the number by a call, and caches the value if permitted (rule c).
func (r *rig) fetch(n *number) int64 {
	n.mu.Lock()
	grant, changes, quiet := n.grant, n.changes, n.changing == 0
	n.mu.Unlock()
	v, err := r.call(n, procRead)
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

// change increments the number by a call.
func (r *rig) change(n *number) {
	n.mu.Lock()
	n.known = false
	n.changing++
	n.changes++
	n.mu.Unlock()
	_, _ = r.call(n, procChange)
	n.mu.Lock()
	n.changing--
	n.mu.Unlock()
}

// A numbers is a server of numbers, with the clients that read and change the
// numbers.
type numbers struct {
	*rig
	all [4]atomic.Int64
}

func (s *numbers) of(fh []byte) *atomic.Int64 { return &s.all[int(fh[0]-'a')] }

// upTo returns a random, mostly short time.
func upTo(d time.Duration) time.Duration {
	part := rand.Float64()
	return time.Duration(float64(d) * part * part * part)
}

// data serves a READ or a change.
func (s *numbers) data(by *served, proc uint32, fh []byte) (v int64) {
	n := s.of(fh)
	if proc == procRead {
		v = n.Load()
		time.Sleep(upTo(100 * time.Millisecond))
		return v
	}
	s.k.changeBy(by.conn, string(fh), func() {
		time.Sleep(upTo(50 * time.Millisecond))
		v = n.Add(1)
	})
	return v
}

// client runs one client until the end, and returns how many reads were served
// from its cache.
func (s *numbers) client(end time.Time) (served int64) {
	r := &rig{t: s.t, k: s.k, listen: s.listen}
	clock := s.k.clock
	r.Set = New(Config{Drop: dropNumber, Now: clock, Log: quiet})
	r.connect()
	var cache [len(s.all)]*number
	for i := range cache {
		cache[i] = &number{fh: string(rune('a' + i)), server: &s.all[i]}
		r.Init(&cache[i].Object, []byte(cache[i].fh), cache[i])
	}
	var users sync.WaitGroup
	var hits atomic.Int64
	for range 3 {
		users.Go(func() {
			for time.Now().Before(end) {
				n := cache[rand.IntN(len(cache))]
				if rand.IntN(20) == 0 {
					r.change(n)
					continue
				}
				from := n.server.Load()
				v, cached := r.read(n)
				assert.GreaterOrEqual(r.t, v, from, "stale, cached %v", cached)
				if cached {
					hits.Add(1)
				}
				time.Sleep(upTo(time.Second))
			}
		})
	}
	users.Go(func() {
		for time.Now().Before(end) {
			r.trouble()
			time.Sleep(upTo(4 * lease))
		}
	})
	users.Wait()
	r.close()
	return hits.Load()
}

// trouble disturbs the connection at random.
func (r *rig) trouble() {
	c := r.conn()
	switch rand.IntN(4) {
	case 0:
		c.Abort(context.Canceled)
	case 1:
		resume := c.Pause() // nothing arrives until then
		time.Sleep(upTo(2 * lease))
		resume()
	default:
		c.Delay(upTo(lease / 4))
	}
}

// TestNothingStale checks that no stale value is ever served, despite all
// disturbances of two clients' connections.
func TestNothingStale(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := &numbers{rig: r}
				r.k.data = s.data
				end := time.Now().Add(10 * time.Minute)
				var clients sync.WaitGroup
				for range 2 {
					clients.Go(func() {
						served := s.client(end)
						assert.Greater(t, served, int64(100), "uses without a call")
					})
				}
				clients.Go(func() { // on no connection
					for time.Now().Before(end) {
						n := rand.IntN(len(s.all))
						r.k.change(string(rune('a'+n)), func() { s.all[n].Add(1) })
						time.Sleep(upTo(10 * time.Second))
					}
				})
				clients.Wait()
				synctest.Wait()
				t.Logf("%+v, cut %v", r.k.g.Stats(), r.k.cuts)
			})
		})
	}
}
