// Package watermillpubsub has a configuration that is Watermill's own Publishers and Subscribers around Outrider's router:
// watermill-sql's Subscriber reads a topic, and the Publishers of watermill-kafka and watermill-http deliver it. No Go code is needed:
//
//	outrider init -c outrider.yaml
//	outrider run -c outrider.yaml
//
// Its test runs the configuration as it is, with an application that publishes by watermill-sql's Publisher and receivers
// that are the Subscribers of watermill-kafka and watermill-http.
package watermillpubsub
