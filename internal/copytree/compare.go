package copytree

import (
	"bytes"
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"
)

// equalLength compares two files from offset from up to offset to, and returns the offset
// up to which they are equal.
func equalLength(ctx context.Context, a, b openFile, from, to int64) (int64, error) {
	if from >= to {
		return to, nil
	}
	p, q := make([]byte, min(compareBlock, to-from)), make([]byte, min(compareBlock, to-from))
	for off := from; off < to; {
		n := int(min(int64(len(p)), to-off))
		var got [2]int
		var both errgroup.Group
		for i, f := range []openFile{a, b} {
			both.Go(func() (err error) {
				got[i], err = f.readAt(ctx, [][]byte{p, q}[i][:n], off)
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return err
			})
		}
		if err := both.Wait(); err != nil {
			return off, err
		}
		same := commonPrefix(p[:got[0]], q[:got[1]])
		if off += int64(same); same < n {
			return off, nil
		}
	}
	return to, nil
}

// commonPrefix returns the length of the longest common prefix.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	if bytes.Equal(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
