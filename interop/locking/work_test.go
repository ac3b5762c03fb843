package locking

import (
	"bufio"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWork has two workers lock one file, and then one that finds the mark of
// another.
func TestWork(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, MakeWork(dir))
	const workers, rounds = 2, 10
	ended := make(chan error, workers)
	var total atomic.Int64
	var readers sync.WaitGroup
	for i := range workers {
		in, stop := io.Pipe()
		said, out := io.Pipe()
		go func() {
			ended <- Work(dir, uint64(i+1), in, out)
			out.Close()
		}()
		readers.Go(func() {
			for lines := bufio.NewScanner(said); lines.Scan(); {
				if total.Add(1) >= rounds {
					stop.Close()
				}
			}
		})
	}
	for range workers {
		require.NoError(t, <-ended)
	}
	readers.Wait()
	count, err := Worked(dir)
	require.NoError(t, err)
	assert.EqualValues(t, total.Load(), count)

	f, err := os.OpenFile(dir+"/"+workName, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	for i := int64(1); i <= regions; i++ {
		_, err = f.WriteAt([]byte{77}, i*markSize)
		require.NoError(t, err)
	}
	_, err = Worked(dir)
	assert.Error(t, err)
	assert.ErrorIs(t, Work(dir, 5, strings.NewReader(""), io.Discard), errTwice)
}
