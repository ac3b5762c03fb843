package iwarp

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestLending checks that the reader is in no call that the runtime does not know of while
// the kernel reads from mappings.
func TestLending(t *testing.T) {
	var s lending
	var inside, over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			if s.enter() {
				inside.Store(true)
				for range 100 { // as a system call takes some time
					over.Load()
				}
				inside.Store(false)
				s.leave()
			}
			runtime.Gosched() // on one processor, too, the other must get on
		}
	})
	for range 10_000 {
		s.begin()
		if !assert.False(t, inside.Load()) {
			break
		}
		runtime.Gosched()
		if !assert.False(t, inside.Load()) {
			break
		}
		s.end()
	}
	s.end()
	over.Store(true)
	wg.Wait()
}

// TestHungDisk checks that a connection whose data wait for a disk, with the socket locked by
// the kernel, holds up nobody else, and that its peer does not count as one that stalls.
func TestHungDisk(t *testing.T) {
	world(t)
	a, b := pair(t, transports["tcp"])
	open(t, a, b)
	x, y := pair(t, transports["tcp"])
	disk, waits := make(chan struct{}), make(chan struct{})
	l := a.sock.tcp
	l.wr.call = func(flags int) (int, unix.Errno) {
		if l.wr.faults {
			close(waits)
			<-disk
		}
		return l.wr.system(flags)
	}
	a.tx.watch.limit = 50 * time.Millisecond
	file, _ := mapped(t, 100)
	done := make(waiter, 1)
	go a.Post(lend(rdma.WR{Op: rdma.OpSend, Data: [][]byte{file}, Done: done}))
	<-waits
	assert.False(t, l.rd.lends.enter(), "the runtime learns of the reader's calls")

	// Whatever asks the kernel about the socket waits now.
	held := make(chan struct{})
	go l.control(func(int) {
		close(held)
		<-disk
	})
	<-held
	ask := func() bool {
		_, _, ok := a.sock.meter.Ask(func() (uint64, uint64) { <-disk; return 0, 0 })
		return ok
	}
	require.False(t, ask())

	cause := errors.New("cut")
	over := make(chan struct{})
	go func() {
		defer close(over)
		assert.True(t, a.AwaitsSource())
		assert.False(t, x.AwaitsSource())
		a.Traffic()
		lab.Stats()
		if l.happened(l.rd.event) { // as a worker does
			idle.push(l)
		}
		time.Sleep(2 * lentLooks * a.tx.watch.limit)
		assert.NotErrorIs(t, a.closedError(), errLentStalls)
		a.Abort(cause)
		open(t, x, y)
	}()
	select {
	case <-over:
	case <-time.After(patience):
		assert.Fail(t, "another goroutine waits for the disk")
	}
	close(disk)
	<-over
	assert.ErrorIs(t, a.in.end(t), cause)
	done.wait(t)
	assert.False(t, a.AwaitsSource())
}
