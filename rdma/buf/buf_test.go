package buf

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	for _, tt := range []struct{ n, capacity int }{
		{0, 512},
		{1, 512},
		{512, 512},
		{513, 1024},
		{4096, 4096},
		{4097, 8192},
		{32 << 10, 32 << 10},
		{32<<10 + 1, 64<<10 + headerSpace},
		{64<<10 + headerSpace, 64<<10 + headerSpace},
		{64<<10 + headerSpace + 1, 128<<10 + headerSpace},
		{1 << 20, 1<<20 + headerSpace},
		{1<<20 + headerSpace, 1<<20 + headerSpace},
		{1<<20 + headerSpace + 1, 2<<20 + headerSpace},
		{4<<20 + headerSpace, 4<<20 + headerSpace},
		{4<<20 + headerSpace + 1, 4<<20 + headerSpace + 1}, // allocated individually
		{64 << 20, 64 << 20},
	} {
		var p Pool
		b := p.Get(tt.n)
		assert.Len(t, b.B, tt.n)
		assert.Equal(t, tt.capacity, cap(b.B), tt.n)
		b.Release()
		assert.Zero(t, p.Out())
	}
}

// TestClassOf checks that each class is the smallest that holds the length.
func TestClassOf(t *testing.T) {
	for n := range 1 << 18 {
		c := classOf(n)
		if classSize(c) < n || c > 0 && classSize(c-1) >= n {
			t.Fatalf("%d bytes: class %d of %d", n, c, classSize(c))
		}
	}
	for c := range classes {
		assert.Equal(t, c, classOf(classSize(c)))
	}
}

func TestPoolLendsAgain(t *testing.T) {
	var p Pool
	b := p.Get(1000)
	b.B = b.B[10:20] // changes to B have no effect
	b.Release()
	again := p.Get(600)
	assert.Same(t, b, again)
	assert.Len(t, again.B, 600)
	assert.Equal(t, 1024, cap(again.B))
	again.Release()

	large := p.Get(5 << 20)
	large.Release()
	assert.NotSame(t, large, p.Get(5<<20), "not kept")
}

func TestPoolKeepsNoMoreThanMaxIdle(t *testing.T) {
	var p Pool
	var lent []*Buf
	for range 20 {
		lent = append(lent, p.Get(1<<20))
	}
	assert.Equal(t, 20, p.Out())
	for _, b := range lent {
		b.Release()
	}
	assert.Zero(t, p.Out())
	kept := p.freeLists[classOf(1<<20)].free
	assert.Len(t, kept, maxIdle/(1<<20+headerSpace))
}

func TestRetain(t *testing.T) {
	var p Pool
	b := p.Get(1)
	assert.Same(t, b, b.Retain())
	b.Release()
	assert.Equal(t, 1, p.Out(), "the second owner's bytes")
	assert.NotNil(t, b.B)
	b.Release()
	assert.Zero(t, p.Out())
	assert.Nil(t, b.B, "use after release is seen")
}

func TestFaultsPanic(t *testing.T) {
	for _, n := range []int{1, 5 << 20} {
		var p Pool
		b := p.Get(n)
		b.Release()
		assert.Panics(t, b.Release, "released twice")
		b = p.Get(n)
		b.Release()
		assert.Panics(t, func() { b.Retain() }, "retained after release")
	}
	assert.Panics(t, func() { new(Pool).Get(-1) })
}

func TestGetAllocatesNothing(t *testing.T) {
	var p Pool
	p.Get(4096).Release()
	assert.Zero(t, testing.AllocsPerRun(100, func() { p.Get(4096).Release() }))
}

// TestPoolConcurrent lets the race detector find two holders for one buffer.
func TestPoolConcurrent(t *testing.T) {
	var p Pool
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				b := p.Get(1 + (g*31+i*97)%3000)
				for j := range b.B {
					b.B[j] = byte(g)
				}
				second := b.Retain()
				wg.Go(func() {
					_ = second.B[0]
					second.Release()
				})
				for j := range b.B {
					if b.B[j] != byte(g) {
						t.Error("two owners")
						break
					}
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.Out())
}

// TestSize checks that Size is the memory that a buffer takes.
func TestSize(t *testing.T) {
	var p Pool
	for _, n := range []int{0, 1, 512, 513, 4096, 4097, 65536, 72 << 10, 72<<10 + 1, 513 << 10, 1<<20 + 4<<10, 4<<20 + 8<<10, 4<<20 + 8<<10 + 1, 64 << 20} {
		b := p.Get(n)
		assert.Equal(t, len(b.mem), Size(n), n)
		b.Release()
	}
}

type fakeOwner struct{ returned [][]byte }

func (o *fakeOwner) Return(mem []byte) { o.returned = append(o.returned, mem) }

// TestBorrow checks that borrowed memory goes back to its owner undivided, with
// the last reference, and to no pool.
func TestBorrow(t *testing.T) {
	var o fakeOwner
	mem := []byte("borrowed")
	b := Borrow(mem, &o)
	b.Retain()
	b.B = b.B[:3]
	b.Release()
	assert.Empty(t, o.returned)
	b.Release()
	assert.Equal(t, [][]byte{mem}, o.returned)
	assert.Panics(t, b.Release)

	o.returned = o.returned[:0]
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		Borrow(mem, &o).Release()
		o.returned = o.returned[:0]
	}))
}
