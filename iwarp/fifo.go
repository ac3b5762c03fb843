package iwarp

// A fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	first int
}

func (f *fifo[T]) len() int { return len(f.items) - f.first }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.first > len(f.items)/2 {
		n := copy(f.items, f.items[f.first:])
		clear(f.items[n:])
		f.items, f.first = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// all returns the items, oldest first.
func (f *fifo[T]) all() []T { return f.items[f.first:] }

// front returns the oldest item, which stays.
func (f *fifo[T]) front() *T { return &f.items[f.first] }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.first]
	f.items[f.first] = zero
	f.first++
	if f.first == len(f.items) {
		f.items, f.first = f.items[:0], 0
	}
	return v
}
