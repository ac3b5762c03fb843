package fusefs

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestOvertakenWrite lets READs of other programs overtake a WRITE that waits for memory, after the
// kernel has dropped its page with the new data: once before the WRITE is accepted, and once in the
// meantime. What is read after the write has the new data.
func TestOvertakenWrite(t *testing.T) {
	const size = 4096
	for name, during := range map[string]bool{"before": false, "during": true} {
		t.Run(name, func(t *testing.T) {
			_, m := newMount(t)
			m.budget = nfsclient.NewBudget(size)
			was, is := bytes.Repeat([]byte("old."), size/4), bytes.Repeat([]byte("new."), size/4)
			writeFile(t, m.path("a"), was)
			require.NoError(t, os.Truncate(m.path("a"), 3*maxDoneReads<<20))
			writer, reader := openAt(t, m.path("a"), os.O_RDWR), openAt(t, m.path("a"), os.O_RDONLY)
			got := make([]byte, size)
			read := func() string {
				_, err := reader.ReadAt(got, 0)
				require.NoError(t, err)
				return string(got[:4])
			}
			require.Equal(t, "old.", read())

			begun, end := m.blockCalls(nfs3.ProcWrite)
			other := openAt(t, m.path("b"), os.O_CREATE|os.O_WRONLY)
			_, err := other.Write(was)
			require.NoError(t, err)
			wrote := make(chan error, 1)
			go func() {
				_, err := writer.WriteAt(is, 0)
				wrote <- err
			}()
			begun() // the other file's data have all the memory
			n := m.table.findChild(m.table.findNode(1), "a")
			require.Eventually(t, func() bool { return read() == "new." }, 10*time.Second, time.Millisecond, "the page")
			require.Zero(t, m.server.InodeNotify(n.id, 0, 0))
			if during {
				hasRead, reply := make(chan struct{}), make(chan struct{})
				m.mu.Lock()
				var once sync.Once
				m.after = func(x *oncrpc.Exchange) {
					if x.Proc == nfs3.ProcRead {
						once.Do(func() { close(hasRead) })
						<-reply
					}
				}
				m.mu.Unlock()
				first := make(chan string, 1)
				go func() { first <- read() }()
				<-hasRead
				end()
				require.NoError(t, <-wrote)
				close(reply)
				assert.Equal(t, "new.", <-first, "read again")
			} else {
				require.Equal(t, "old.", read(), "the WRITE has not been accepted")
				for i := range 2 * maxDoneReads { // each is forgotten after others
					_, err := reader.ReadAt(got, int64(1+i)<<20)
					require.NoError(t, err)
				}
				end()
				require.NoError(t, <-wrote)
			}
			assert.Equal(t, "new.", read())
		})
	}
}
