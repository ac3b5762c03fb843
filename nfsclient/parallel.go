package nfsclient

import (
	"math"
	"sync"
	"sync/atomic"
)

// runInOrder runs do(0), do(1) and so on up to do(n-1). It starts them in this
// order, at most depth at a time, and waits for those that it started. After a
// failure it starts no more. It returns the lowest i that failed, or n, and the
// results of do(i). All calls below i succeeded.
func runInOrder(n, depth int, do func(i int) (int, error)) (failed, result int, err error) {
	if n <= 1 || depth == 1 {
		return runSequentially(n, do)
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
				failed, result, err = i, m, e
			}
			mu.Unlock()
		}
	}
	for range min(n, depth) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return failed, result, err
}

func runSequentially(n int, do func(i int) (int, error)) (failed, result int, err error) {
	for i := range n {
		if result, err = do(i); err != nil {
			return i, result, err
		}
	}
	return n, 0, nil
}
