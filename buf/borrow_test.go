package buf

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type owner struct{ back [][]byte }

func (o *owner) Return(mem []byte) { o.back = append(o.back, mem) }

// TestBorrow checks that borrowed memory goes back to its owner, whole, with
// the last reference, and to no pool.
func TestBorrow(t *testing.T) {
	var o owner
	mem := []byte("borrowed")
	b := Borrow(mem, &o)
	b.Retain()
	b.B = b.B[:3]
	b.Release()
	assert.Empty(t, o.back)
	b.Release()
	assert.Equal(t, [][]byte{mem}, o.back)
	assert.Panics(t, b.Release)

	o.back = o.back[:0]
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		Borrow(mem, &o).Release()
		o.back = o.back[:0]
	}))
}
