package krb5

import "time"

// Skew is how far the clocks of two ends may differ. An Acceptor takes tickets and
// authenticators whose times are that far off. It does not change Expires of a
// Context: a user of the Context must keep it for Skew after that.
const Skew = 5 * time.Minute
