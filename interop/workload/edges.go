package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// edgeBelow is more than the RPC bytes around a call's data or a reply. The longest
	// data that fits a message is therefore less than edgeBelow shorter than the message.
	edgeBelow = 420
	edgeAbove = 8

	longestLink = 4095 // bytes, Linux's limit
	longNames   = 24   // in one directory
	longName    = 200  // bytes in each
	edgeSeed    = 0xed9
)

// Edges writes and reads file pieces, past the page cache, with lengths around the
// longest call and the longest reply, in bytes, that a transport sends in one message.
// Some lengths fit, those above do not. Then Edges calls EdgeTree.
func Edges(dir string, call, reply int) error {
	return runChecks(func(t *T) {
		file := filepath.Join(dir, "pieces")
		createFile(t, file, nil)
		f, err := os.OpenFile(file, os.O_RDWR|directFlag(t, dir), 0)
		require.NoError(t, err)
		want := patternBytes(edgeSeed, reply+edgeAbove)
		for n := call - edgeBelow; n <= call+edgeAbove; n += 7 { // with every padding
			piece := patternBytes(uint64(n), n)
			_, err := f.WriteAt(piece, 0)
			require.NoError(t, err)
			got := make([]byte, 4)
			_, err = f.ReadAt(got, int64(n-4))
			require.NoError(t, err)
			require.Equal(t, piece[n-4:], got, n)
		}
		_, err = f.WriteAt(want, 0)
		require.NoError(t, err)
		for n := reply - edgeBelow; n <= reply+edgeAbove; n += 7 {
			got := make([]byte, n)
			_, err := f.ReadAt(got, 0)
			require.NoError(t, err)
			require.Empty(t, findDifference(want[:n], got), n)
		}
		require.NoError(t, f.Close())
		require.NoError(t, EdgeTree(dir, call, reply))
	})
}

// EdgeTree creates files and symbolic links with lengths just below the given ones, and a
// directory with too many names for a short listing.
func EdgeTree(dir string, lengths ...int) error {
	return runChecks(func(t *T) {
		for i, edge := range lengths {
			for n := edge - edgeBelow; n <= edge+edgeAbove; n += 61 {
				require.NoError(t, os.WriteFile(pathIn(dir)(fmt.Sprintf("file%d-%d", i, n)), patternBytes(uint64(n), n), 0o644))
				if n <= longestLink {
					require.NoError(t, os.Symlink(strings.Repeat("t", n), pathIn(dir)(fmt.Sprintf("link%d-%d", i, n))))
				}
			}
		}
		require.NoError(t, os.Symlink(strings.Repeat("t", longestLink), pathIn(dir)("link")))
		names := pathIn(dir)("names")
		require.NoError(t, os.Mkdir(names, 0o755))
		for i := range longNames {
			require.NoError(t, os.WriteFile(pathIn(names)(fmt.Sprintf("%0*d", longName, i)), nil, 0o644))
		}
		assert.Len(t, listNames(t, names), longNames)
	})
}
