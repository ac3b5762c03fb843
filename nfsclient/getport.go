package nfsclient

import (
	"context"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

func getPort(ctx context.Context, caller oncrpc.Caller) (int, error) {
	x := oncrpc.Exchange{Prog: 100000, Vers: 2, Proc: 3, MaxResults: 4}
	for _, v := range []uint32{mount3.Program, mount3.Version, 6, 0} {
		x.Args = xdr.AppendUint32(x.Args, v)
	}
	if err := caller.Call(ctx, &x); err != nil {
		return 0, err
	}
	defer x.Release()
	port := x.Results.Uint32()
	switch err := x.Results.Err(); {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrReply, err)
	case port > math.MaxUint16:
		return 0, fmt.Errorf("%w: port %d", ErrReply, port)
	case port == 0:
		return 0, errUnregistered
	}
	return int(port), nil
}
