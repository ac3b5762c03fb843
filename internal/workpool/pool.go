package workpool

import "sync"

// maxIdle is how many goroutines a pool keeps for later. Some tens of calls
// from some connections fit in; a goroutine costs a few KiB.
const maxIdle = 256

// A Task is something to run once. A pointer to a struct that is used again
// costs no allocation where a function literal would.
type Task interface{ Run() }

// A Pool runs tasks. The zero value is ready to use.
type Pool struct {
	mu     sync.Mutex
	idle   []*worker // the last is the one whose stack is warm
	closed bool
	wg     sync.WaitGroup // all workers, idle ones included
}

// A worker is one goroutine.
type worker struct {
	next chan Task // room for one; closed where the worker shall end
}

// Go runs t on a goroutine of the pool and does not wait for it. A task may
// call it too.
func (p *Pool) Go(t Task) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		w := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		w.next <- t
		return
	}
	p.wg.Add(1)
	p.mu.Unlock()
	go p.work(t)
}

// Close waits until every task has returned, those included that they start
// meanwhile, and ends the goroutines. Nobody else may call Go any more. It may
// be called twice.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		close(w.next)
	}
	p.wg.Wait()
}

func (p *Pool) work(t Task) {
	defer p.wg.Done()
	w := &worker{next: make(chan Task, 1)}
	for t != nil {
		t.Run()
		if !p.park(w) {
			return
		}
		t = <-w.next
	}
}

// park makes w idle, or returns false where it shall end.
func (p *Pool) park(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}
