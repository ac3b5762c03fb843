package rpcrdma

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// TestPullLendsLate checks that calls whose chunks are on their way have no
// buffers yet, although memory is reserved.
func TestPullLendsLate(t *testing.T) {
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.Delay(20 * time.Second)
		before := buf.Default.Out()
		for i := range uint32(5) {
			q.writeLarge(i)
		}
		time.Sleep(30 * time.Second)
		assert.Equal(t, before+5, buf.Default.Out(), "the messages'")
		assert.Equal(t, 5*bufferSize(large), r.memory.InUse())
		time.Sleep(30 * time.Second)
		assert.Len(t, q.newAnswers(), 5)
	})
}
