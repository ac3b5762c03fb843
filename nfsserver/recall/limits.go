package recall

import "github.com/nfsrdma/nfsrdma/internal/fairshare"

// maxWaiting is the number of changes that may wait at a time. Each occupies a transport
// goroutine, and no other resource that other calls need. A client group gets half, or half of
// what others leave.
const maxWaiting = 1024

type places = fairshare.Places

func newPlaces() *places { return fairshare.NewPlaces(maxWaiting) }
