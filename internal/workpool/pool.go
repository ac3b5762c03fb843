package workpool

import "sync"

// maxIdle is the number of idle goroutines that a pool keeps: enough for some tens
// of calls from some connections. A goroutine costs a few KiB.
const maxIdle = 256

// A Task is work to run once. A pointer to a reused struct costs no allocation,
// in contrast to a function literal.
type Task interface{ Run() }

// A Pool runs tasks. The zero value is ready to use.
type Pool struct {
	mu     sync.Mutex
	idle   []*worker // the last has the warmest stack
	closed bool
	wg     sync.WaitGroup // all workers, idle ones included
}

// A worker is one goroutine.
type worker struct {
	next chan Task // capacity 1; closed to stop the worker
}

// Go runs t on one of the pool's goroutines and does not wait. Tasks may also call
// Go.
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
	go p.runWorker(t)
}

// Close waits until every task has returned, including tasks that these start in
// the meantime, and stops the goroutines. No other goroutine may call Go any more.
// Close may be called twice.
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

func (p *Pool) runWorker(t Task) {
	defer p.wg.Done()
	w := &worker{next: make(chan Task, 1)}
	for t != nil {
		t.Run()
		if !p.parkWorker(w) {
			return
		}
		t = <-w.next
	}
}

// parkWorker makes w idle, or returns false if w must exit.
func (p *Pool) parkWorker(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}
