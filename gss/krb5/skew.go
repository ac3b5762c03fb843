package krb5

import "time"

// Skew is how far the clocks of two ends may differ. A user of a Context must keep
// the context for that long after its end.
const Skew = 5 * time.Minute
