//go:build linux

package posix_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A file keeps its handle when it is renamed.
func Example() {
	dir, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fs, err := posix.Open(dir, posix.Options{}) // a daemon sets StateDir
	if err != nil {
		log.Fatal(err)
	}
	defer fs.Close()

	ctx := context.Background()
	me := &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	made, err := fs.Create(ctx, me, fs.Root(), "draft", vfs.CreateHow{Mode: vfs.Guarded})
	if err != nil {
		log.Fatal(err)
	}
	_, _, _, err = fs.Write(ctx, me, made.Handle, []byte("hello"), 0, vfs.FileSync)
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := fs.Rename(ctx, me, fs.Root(), "draft", fs.Root(), "final"); err != nil {
		log.Fatal(err)
	}
	p := make([]byte, 100)
	n, eof, _, err := fs.Read(ctx, me, made.Handle, p, 0)
	fmt.Printf("%s %v %v\n", p[:n], eof, err)
	// Output: hello true <nil>
}
