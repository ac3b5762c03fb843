package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A fakeKernel is a connection that takes bytes as the kernel does: some at a time, of
// several elements together, and all or none of them. It returns EFAULT in front of those
// that it cannot read.
type fakeKernel struct {
	net.Conn
	taken        []byte
	first, chunk int // how many bytes it takes at first, unless 0, and then
	gone         map[*byte]bool
}

func (k *fakeKernel) WriteBuffers(v *net.Buffers) (total int64, err error) {
	for len(*v) > 0 {
		n := k.chunk
		if k.first > 0 {
			n, k.first = k.first, 0
		}
		var chunk []byte
		for _, b := range *v {
			b = b[:min(len(b), n-len(chunk))]
			if len(b) > 0 && k.gone[&b[0]] {
				return total, &net.OpError{Op: "writev", Err: syscall.EFAULT}
			}
			chunk = append(chunk, b...)
		}
		k.taken = append(k.taken, chunk...)
		total += int64(len(chunk))
		for n = len(chunk); len(*v) > 0 && n >= len((*v)[0]); *v = (*v)[1:] {
			n -= len((*v)[0])
			(*v)[0] = nil
		}
		if n > 0 {
			(*v)[0] = (*v)[0][n:]
		}
	}
	return total, nil
}

func (k *fakeKernel) Security() *Security              { return nil }
func (k *fakeKernel) Close() error                     { return nil }
func (k *fakeKernel) SetWriteDeadline(time.Time) error { return nil }
func (k *fakeKernel) LocalAddr() net.Addr              { return pipeAddr{} }
func (k *fakeKernel) RemoteAddr() net.Addr             { return pipeAddr{} }

// A fakeItem is the owner of an item of which others have truncated the file.
type fakeItem struct {
	data []byte
	end  int // end of the bytes that can be read again
	err  error
	out  int // lent and not returned
}

func (f *fakeItem) Return([]byte) { f.out-- }

func (f *fakeItem) Reread(_ []byte, at int, p []byte) (int, error) {
	if f.end < at {
		return f.end, f.err
	}
	n := copy(p, f.data[at:f.end])
	return at + n, f.err
}

// writeFake has the records of the items written to k, in one batch, and returns what the
// connection has ended with. Items whose err is errPlain are in buffers.
func writeFake(t *testing.T, s *Server, k *fakeKernel, items []*fakeItem, gone ...int) error {
	c := newTCPConn(s, k, s.parties.Enter(k.RemoteAddr()))
	defer s.parties.Leave(c.party)
	k.gone = make(map[*byte]bool)
	for i, f := range items {
		cl := c.newCall()
		cl.releasedSlot = true // it has no slot
		c.activeCalls.Add(1)
		r := &cl.reply
		r.Head = append(r.Head, "head"...)
		if f.err == errPlain {
			copy(r.NewItem(len(f.data)), f.data)
		} else {
			f.out++
			r.Item, r.Cut = buf.Borrow(bytes.Clone(f.data), f), cutWord
		}
		r.Head = xdr.AppendUint32(r.Head, uint32(len(f.data)))
		for _, g := range gone {
			if g == i {
				k.gone[&r.Item.B[0]] = true
			}
		}
		c.out.put(cl, i < len(items)-1)
	}
	err := context.Cause(c.ctx)
	c.abort(nil)
	for i, f := range items {
		assert.Zero(t, f.out, "item %d", i)
	}
	assert.Zero(t, s.replyMemory.InUse())
	assert.Zero(t, buf.Default.Out())
	return err
}

var errPlain = errors.New("this item is in a buffer")

// fakeRecord returns the record of an item that has n bytes, and err.
func fakeRecord(f *fakeItem, n int, err error) []byte {
	head := []byte("head")
	if n > 0 || err == nil {
		head = xdr.AppendOpaque(head, f.data[:n])
	}
	return newRecord(head)
}

// TestVanishedAnywhere checks that, wherever the kernel stops, the peer gets whole records
// with the data that there are. If it cannot, because a record has begun to leave, it gets
// nothing wrong, and the connection ends.
func TestVanishedAnywhere(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: discardLogger()}
	s.init()
	sizes := []int{13, 6, 8, 5}
	items := make([]*fakeItem, len(sizes))
	var whole []byte
	starts, ends := make([]int, len(sizes)), make([]int, len(sizes)) // record positions in the stream; the ends without padding
	for i, n := range sizes {
		items[i] = &fakeItem{data: fileBytes(100*i, n)}
		starts[i] = len(whole)
		whole = append(whole, fakeRecord(items[i], n, nil)...)
		ends[i] = len(whole) - xdr.Pad(n)
	}
	reset := func() {
		for i, f := range items {
			f.end, f.err = len(f.data), nil
			if i == 1 {
				f.err = errPlain
			}
		}
	}
	cuts, lost := make(map[int]int), make(map[int]int)
	try := func(first, chunk int, gone []int) (ok bool) {
		// All data can be read again.
		reset()
		k := &fakeKernel{first: first, chunk: chunk}
		what := []any{"%v, %d and %d bytes", gone, first, chunk}
		if !assert.NoError(t, writeFake(t, s, k, items, gone...), what...) || !assert.Equal(t, whole, k.taken, what...) {
			return false
		}
		// One of those that are gone is shorter by now.
		for _, i := range gone {
			for _, short := range []struct {
				end int
				err error
			}{{0, nil}, {0, unix.EIO}, {4, nil}, {3, unix.EIO}, {sizes[i] - 1, nil}} {
				reset()
				items[i].end, items[i].err = short.end, short.err
				k := &fakeKernel{first: first, chunk: chunk}
				err := writeFake(t, s, k, items, gone...)
				what := []any{"%v without %d from %d on, %d and %d bytes", gone, i, short.end, first, chunk}
				if errors.Is(err, errShrunk) { // a part of the record has left
					lost[i]++
					n := len(k.taken)
					if !assert.True(t, starts[i] < n && n < ends[i] && bytes.Equal(whole[:n], k.taken), what...) {
						return false
					}
					if short.err != nil {
						assert.ErrorIs(t, err, short.err, what...)
					}
					continue
				}
				cuts[i]++
				end := len(whole)
				if i+1 < len(starts) {
					end = starts[i+1]
				}
				want := append(bytes.Clone(whole[:starts[i]]), fakeRecord(items[i], short.end, short.err)...)
				want = append(want, whole[end:]...)
				if !assert.NoError(t, err, what...) || !assert.Equal(t, want, k.taken, what...) {
					return false
				}
			}
		}
		return true
	}
	for _, gone := range [][]int{nil, {0}, {2}, {3}, {0, 2}, {2, 3}, {0, 2, 3}} {
		for first := range len(whole) {
			for _, chunk := range []int{1, 7, 16, 1000} {
				if !try(first, chunk, gone) {
					return
				}
			}
		}
	}
	for _, i := range []int{0, 2, 3} {
		assert.Greater(t, cuts[i], 20, "item %d", i)
		assert.Greater(t, lost[i], 20, "item %d", i)
	}
}

// TestVanishedNoMemory checks that a write never waits for memory: others may wait for the
// write.
func TestVanishedNoMemory(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: discardLogger()}
	s.init()
	free := fillMemory(t, s.replyMemory, 0)
	k := &fakeKernel{first: 10, chunk: 100}
	f := &fakeItem{data: fileBytes(0, 100), end: 100}
	c := newTCPConn(s, k, s.parties.Enter(k.RemoteAddr()))
	cl := c.newCall()
	cl.releasedSlot = true
	c.activeCalls.Add(1)
	f.out++
	cl.reply.Item, cl.reply.Cut = buf.Borrow(f.data, f), cutWord
	cl.reply.Head = append(cl.reply.Head, "length"...)
	k.gone = map[*byte]bool{&f.data[0]: true}
	c.out.put(cl, false)
	assert.ErrorIs(t, context.Cause(c.ctx), errShrunk)
	assert.Zero(t, f.out)
	assert.Len(t, k.taken, 10)
	free()
	s.parties.Leave(c.party)
	assert.Zero(t, s.replyMemory.InUse())
	assert.Zero(t, buf.Default.Out())
}
