package nfsclient_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Copy a file from a server. The result of rpcrdma.DialConn can replace conn:
// nfsclient does not depend on the transport.
func Example() {
	ctx := context.Background()
	conn, err := oncrpc.DialTCP(ctx, net.JoinHostPort("server", "2049"), oncrpc.ClientConfig{})
	if err != nil {
		return
	}
	defer conn.Close()
	search := nfsclient.MountSearch{NFS: conn, NFSAddr: "TCP server:2049", Host: "server"}
	mount, err := search.Find(ctx)
	if err != nil {
		return
	}
	defer mount.Close()
	root, err := mount.Mnt(ctx, "/data")
	if err != nil {
		return
	}
	fs, err := nfsclient.New(conn, nfsclient.Config{}).FS(ctx, root, "/data")
	if err != nil {
		return
	}
	file, err := fs.Open(ctx, "dir/file")
	if err != nil {
		return
	}
	_, _ = file.CopyTo(ctx, os.Stdout, 0)
}

// Write a file that is on the server's stable storage when write returns,
// however often the server restarts in the meantime.
func ExampleFile_CopyFrom() {
	write := func(ctx context.Context, fs *nfsclient.FS, path string, data []byte) error {
		f, err := fs.Create(ctx, path, 0o644)
		if err != nil {
			return err
		}
		n, err := f.CopyFrom(ctx, bytes.NewReader(data), 0)
		if err != nil {
			return fmt.Errorf("%d bytes are safe: %w", n, err)
		}
		return nil
	}
	_ = write
}

// List a directory with the sizes of its entries.
func ExampleFS_ReadDir() {
	list := func(ctx context.Context, fs *nfsclient.FS) error {
		for e, err := range fs.ReadDir(ctx, "/") {
			if err != nil {
				return err
			}
			fmt.Println(e.Name, e.Attr.Attr.Size)
		}
		return nil
	}
	_ = list
}
