package workpool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

type taskFunc func()

func (t taskFunc) Run() { t() }

func TestPoolRunsEveryTask(t *testing.T) {
	var p Pool
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				p.Go(taskFunc(func() { n.Add(1) }))
			}
		})
	}
	wg.Wait()
	p.Close()
	assert.EqualValues(t, 8*500, n.Load())
}

func TestPoolReusesGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		for range 100 {
			p.Go(taskFunc(func() {}))
			synctest.Wait() // the worker is idle
		}
		assert.Len(t, p.idle, 1)
		p.Close()
	})
}

func TestPoolKeepsNoMoreThanMaxIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		gate := make(chan struct{})
		var running atomic.Int64
		for range maxIdle + 50 {
			p.Go(taskFunc(func() { running.Add(1); <-gate }))
		}
		synctest.Wait()
		assert.EqualValues(t, maxIdle+50, running.Load(), "waiting tasks do not delay others")
		close(gate)
		synctest.Wait()
		assert.Len(t, p.idle, maxIdle)
		p.Close()
	})
}

// TestPoolCloseWaitsForChain checks that a task that starts the next one keeps
// the pool open until the end of the chain.
func TestPoolCloseWaitsForChain(t *testing.T) {
	var p Pool
	var n atomic.Int64
	var step taskFunc
	step = func() {
		if n.Add(1) < 1000 {
			p.Go(step)
		}
	}
	p.Go(step)
	p.Close()
	assert.EqualValues(t, 1000, n.Load())
	p.Close()
}

func TestPoolGoexit(t *testing.T) {
	var p Pool
	p.Go(taskFunc(runtime.Goexit))
	p.Close() // does not wait for the goroutine that has left
}

func TestPoolAllocatesNothing(t *testing.T) {
	var p Pool
	done := make(chan struct{}, 1)
	tk := Task(taskFunc(func() { done <- struct{}{} }))
	allocs := testing.AllocsPerRun(1000, func() {
		p.Go(tk)
		<-done
	})
	p.Close()
	assert.Less(t, allocs, 1.0) // a worker that has not yet parked causes a second one
}
