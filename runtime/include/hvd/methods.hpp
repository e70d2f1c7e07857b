// Training methods for C++20 beside an allreduce in each step. LocalSGD, DiLoCo, Gossip and a
// parameter server need less communication, a sharded optimizer less memory. Header only.
// docs/train/methods.md says which to choose.
//
//   hvd::State model;                                // names for the program's tensors of float
//   model.add("weights", weights);
//   model.add("bias", bias);
//   hvd::LocalSGD method(model, {.every = 8});       // or hvd::DiLoCo, hvd::Gossip
//   while (next_batch()) {
//     take_a_step();                                 // the program's own optimizer
//     method.step();                                 // every 8 steps: averages with other ranks
//   }
//   method.synchronize();                            // all ranks have the same parameters
//
// A checkpoint has the state as a string:
//
//   state.add("method", method_state);
//   if (checkpoints.load(state)) method.load(method_state);
//   ...
//   method_state = method.state();                   // on all ranks
//   checkpoints.save(state, step);
#ifndef HVD_METHODS_HPP_
#define HVD_METHODS_HPP_

#include "hvd/local_steps.hpp"
#include "hvd/parameter_server.hpp"
#include "hvd/sharded_optimizer.hpp"

#endif  // HVD_METHODS_HPP_
