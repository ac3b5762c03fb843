package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// workersPerEnd is how many goroutines post at each end.
const workersPerEnd = 8

// A stressWorker owns a region at the peer and knows its content.
type stressWorker struct {
	id     uint32
	e      endpoint
	remote rdma.Remote
	shadow []byte
	random *rand.Rand
	sent   uint32
}

// fillRandom writes random bytes into b.
func (w *stressWorker) fillRandom(b []byte) {
	copy(b, patternSource[w.random.IntN(len(patternSource)-len(b)):])
}

// nextNote returns a message with a number, a checksum and random bytes.
func (w *stressWorker) nextNote() []byte {
	b := make([]byte, 12+w.random.IntN(3000))
	w.fillRandom(b[12:])
	binary.BigEndian.PutUint32(b, w.id)
	binary.BigEndian.PutUint32(b[4:], w.sent)
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[12:]))
	w.sent++
	return b
}

// runStep posts a Write, a Read that may overlap it, and some Sends, and checks
// the bytes read.
func (w *stressWorker) runStep() error {
	at := w.random.IntN(len(w.shadow))
	n := w.random.IntN(len(w.shadow) - at)
	w.fillRandom(w.shadow[at : at+n])
	from := w.random.IntN(len(w.shadow))
	got := make([]byte, w.random.IntN(len(w.shadow)-from))
	done := make(completionWaiter, 8)
	place := func(n int) rdma.Remote { return rdma.Remote{STag: w.remote.STag, TO: w.remote.TO + uint64(n)} }
	wrs := []rdma.WR{
		{Op: rdma.OpWrite, Data: [][]byte{w.shadow[at : at+n/2], w.shadow[at+n/2 : at+n]}, Remote: place(at), Done: done, ID: 0},
		{Op: rdma.OpSend, Data: [][]byte{w.nextNote()}, Done: done, ID: 1},
		{Op: rdma.OpRead, Data: [][]byte{got}, Remote: place(from), Done: done, ID: 2},
		{Op: rdma.OpSend, Data: [][]byte{w.nextNote()}, Fence: w.random.IntN(4) == 0, Done: done, ID: 3},
	}
	if err := w.e.Post(wrs...); err != nil {
		return err
	}
	var first error
	for i := range wrs {
		c := <-done
		if c.ID != uint64(i) {
			return fmt.Errorf("completion %d instead of %d", c.ID, i)
		}
		if first == nil {
			first = c.Err
		}
	}
	if first == nil && !bytes.Equal(got, w.shadow[from:][:len(got)]) {
		return errors.New("wrong bytes read")
	}
	return first
}

// noteChecker is an upper layer that checks the peer's workers' notes.
type noteChecker struct {
	next   map[uint32]uint32 // by worker
	wrong  []string
	closed chan error
}

func (h *noteChecker) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	b := m.Buf.B
	id, n := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if crc32.ChecksumIEEE(b[12:]) != binary.BigEndian.Uint32(b[8:]) {
		h.wrong = append(h.wrong, fmt.Sprintf("worker %d, note %d: checksum", id, n))
	}
	if n != h.next[id] { // R5040-5.3-5, R5041-5.3-6
		h.wrong = append(h.wrong, fmt.Sprintf("worker %d: note %d instead of %d", id, n, h.next[id]))
	}
	h.next[id]++
}

func (h *noteChecker) Closed(err error) { h.closed <- err }

// runStress runs workers at both ends of a connection until a worker fails or each has made its
// steps. It returns the errors.
func runStress(t *testing.T, o pairOptions, size, steps int, meddle func(a, b endpoint)) []error {
	t.Helper()
	o.recvs = 1 << 20
	o.narrow = true
	checks := [2]*noteChecker{}
	for i := range checks {
		checks[i] = &noteChecker{next: make(map[uint32]uint32), closed: make(chan error, 2)}
	}
	o.handlers = [2]rdma.Handler{checks[0], checks[1]}
	a, b := connectPair(t, o)
	var workers []*stressWorker
	var regions []rdma.Region
	for i := range uint32(2 * workersPerEnd) {
		e, peer := a, b
		if i >= workersPerEnd {
			e, peer = b, a
		}
		r, err := peer.Register(make([]byte, size), rdma.RemoteRead|rdma.RemoteWrite)
		require.NoError(t, err)
		regions = append(regions, r)
		workers = append(workers, &stressWorker{
			id: i, e: e, remote: rdma.Remote{STag: r.STag(), TO: r.TO()}, shadow: make([]byte, size),
			random: rand.New(rand.NewPCG(uint64(i), 3)),
		})
	}
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			for n := 0; n < steps && errs[i] == nil; n++ {
				errs[i] = w.runStep()
			}
		})
	}
	if meddle != nil {
		meddle(a, b)
	}
	wg.Wait()
	for _, r := range regions {
		r.Deregister()
	}
	var closing sync.WaitGroup
	closing.Go(func() { assert.NoError(t, a.Close()) })
	closing.Go(func() { assert.NoError(t, b.Close()) })
	closing.Wait()
	for _, h := range checks {
		require.Len(t, h.closed, 1)
		assert.Empty(t, h.wrong)
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// TestStress runs all operations at once, at both ends, and checks that every
// byte is in its place (R5040-5.3-5).
func TestStress(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			o.initiator.ORD, o.responder.IRD = 3, 2
			assert.Empty(t, runStress(t, o, 100_000, 12, nil))
		})
	}
}

// TestStressEnd checks that the connection may end at any time, by either end
// and in any manner: each work request completes once, in order, and no
// resource leaks.
func TestStressEnd(t *testing.T) {
	cause := errors.New("enough")
	ends := map[string]func(a, b endpoint){
		"Abort":       func(a, _ endpoint) { a.Abort(cause) },
		"both Abort":  func(a, b endpoint) { go a.Abort(cause); b.Abort(cause) },
		"Close":       func(a, _ endpoint) { a.Close() },
		"both Close":  func(a, b endpoint) { go a.Close(); b.Close() },
		"TCP's close": func(a, _ endpoint) { severConn(a) },
		"fault": func(a, _ endpoint) {
			_ = a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}})
		},
	}
	for name, end := range ends {
		for kind, o := range transports {
			t.Run(name+", "+kind, func(t *testing.T) {
				checkLeaks(t)
				for range 2 {
					errs := runStress(t, o, 20_000, 1<<30, func(a, b endpoint) {
						time.Sleep(rand.N(20 * time.Millisecond))
						end(a, b)
					})
					for _, err := range errs {
						assert.True(t, errors.Is(err, rdma.ErrFlushed) || errors.Is(err, rdma.ErrClosed), "%v", err)
					}
					assert.Len(t, errs, 2*workersPerEnd)
				}
			})
		}
	}
}

// TestStressDeregister checks that after Deregister has returned, the peer's
// Writes change nothing (R5040-8.1.1-6-1, R5041-8.3.1-6-1, R5042-6.2.2-2).
func TestStressDeregister(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			for range 15 {
				a, b := connectPair(t, o)
				mem := make([]byte, 1<<20)
				r, err := b.Register(mem, rdma.RemoteWrite)
				require.NoError(t, err)
				writer := runAsync(func() {
					for i := byte(1); ; i++ {
						src, done := bytes.Repeat([]byte{i}, len(mem)), make(completionWaiter, 1)
						err := a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{src}, Remote: rdma.Remote{STag: r.STag()}, Done: done})
						if err != nil || (<-done).Err != nil {
							return
						}
					}
				})
				time.Sleep(rand.N(5 * time.Millisecond))
				r.Deregister()
				sum := crc32.ChecksumIEEE(mem) // the race detector checks this read
				requireSoon(t, writer, "the writer's end")
				require.Equal(t, sum, crc32.ChecksumIEEE(mem))
				require.Error(t, a.inbox.closeError(t))
				require.Error(t, b.inbox.closeError(t))
			}
		})
	}
}
