package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// Stream returns a Tree whose only object is a stream, such as standard input to copy from
// or standard output to copy to. name is its name in messages.
func Stream(name string, r io.Reader, w io.Writer) Tree { return &streamTree{name: name, r: r, w: w} }

func isStream(t Tree) bool {
	_, ok := t.(*streamTree)
	return ok
}

// A streamTree is the Tree of a stream. Copier calls only the methods below.
type streamTree struct {
	Tree
	name string
	r    io.Reader
	w    io.Writer
}

func (t *streamTree) stat(context.Context, string, bool) (entry, error) {
	return entry{path: t.name, kind: fs.ModeNamedPipe, mode: 0o666}, nil
}

func (t *streamTree) openFile(context.Context, entry) (openFile, error) {
	return &streamFile{t.r, t.w}, nil
}

func (t *streamTree) createFile(context.Context, string, uint32) (openFile, error) {
	return &streamFile{t.r, t.w}, nil
}

func (t *streamTree) Explain(_ string, err error) error {
	return &fs.PathError{Op: "copy", Path: t.name, Err: err}
}
func (t *streamTree) Name(string) string { return t.name }
func (t *streamTree) mayChown() bool     { return false }
func (t *streamTree) isFresh() bool      { return false }
func (t *streamTree) close()             {}

// A streamFile is an open stream.
type streamFile struct {
	io.Reader
	w io.Writer
}

func (f *streamFile) version(context.Context) (fileVersion, error) { return fileVersion{}, nil }

func (f *streamFile) readAt(context.Context, []byte, int64) (int, error) {
	return 0, errors.ErrUnsupported
}

func (f *streamFile) truncate(context.Context, int64) error     { return errors.ErrUnsupported }
func (f *streamFile) setAttr(context.Context, attrChange) error { return nil }
func (f *streamFile) closeFile() error                          { return nil }
