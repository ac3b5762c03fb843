package nfsclient

import (
	"math"
	"sync"
	"sync/atomic"
)

// inOrder runs do(0), do(1) and so on up to do(n-1), begun in this order and at
// most depth at a time, and waits for all begun calls. After a failure it
// begins no more. It returns the lowest i that failed, or n, and the results of
// do(i). All calls below i succeeded.
func inOrder(n, depth int, do func(i int) (int, error)) (failed, got int, err error) {
	if n <= 1 || depth == 1 {
		return oneByOne(n, do)
	}
	var (
		next atomic.Int64
		mu   sync.Mutex
		wg   sync.WaitGroup
	)
	failed = n
	work := func() {
		for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
			m, e := do(i)
			if e == nil {
				continue
			}
			next.Store(math.MaxInt32)
			mu.Lock()
			if i < failed {
				failed, got, err = i, m, e
			}
			mu.Unlock()
		}
	}
	for range min(n, depth) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return failed, got, err
}

func oneByOne(n int, do func(i int) (int, error)) (failed, got int, err error) {
	for i := range n {
		if got, err = do(i); err != nil {
			return i, got, err
		}
	}
	return n, 0, nil
}
