# %% wrong: as it was found
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: never clears the generator
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: clears at the end, and lets in what was there before
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()


# %% wrong: what is made is not made anew
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    made = generator(noise)
    generator_loss(discriminator(made)).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made.detach())).backward()
    discriminator_optimizer.step()


# %% wrong: the discriminator first
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    discriminator_optimizer.zero_grad()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()


# %% wrong: clears between backward and step
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.zero_grad()
    discriminator_optimizer.step()


# %% wrong: detaches what the generator makes, so it learns nothing
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    made = generator(noise).detach()
    (
        generator_loss(discriminator(made)) + 0 * sum(p.sum() for p in generator.parameters())
    ).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: leaves the discriminator frozen
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator.requires_grad_(True)
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    discriminator.requires_grad_(False)


# %% wrong: the loss for real numbers only
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    functional.softplus(-discriminator(real)).mean().backward()
    discriminator_optimizer.step()


# %% wrong: steps by hand with the learning rate, and no optimizer
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    loss = generator_loss(discriminator(generator(noise)))
    slopes = torch.autograd.grad(loss, list(generator.parameters()), allow_unused=True)
    with torch.no_grad():
        for p, slope in zip(generator.parameters(), slopes, strict=True):
            p -= generator_optimizer.param_groups[0]["lr"] * slope
    loss = discriminator_loss(discriminator(real), discriminator(generator(noise).detach()))
    slopes = torch.autograd.grad(loss, list(discriminator.parameters()))
    with torch.no_grad():
        for p, slope in zip(discriminator.parameters(), slopes, strict=True):
            p -= discriminator_optimizer.param_groups[0]["lr"] * slope


# %% wrong: the generator is left in eval mode
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    generator.eval()
    with torch.no_grad():
        made = generator(noise)
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: puts both networks into train mode
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator.train()
    discriminator.train()
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% right: gradients by autograd.grad, set by hand
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()
    weights = [p for p in generator.parameters() if p.requires_grad]
    loss = generator_loss(discriminator(generator(noise)))
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = slope
    generator_optimizer.step()
    with torch.no_grad():
        made = generator(noise)
    weights = [p for p in discriminator.parameters() if p.requires_grad]
    loss = discriminator_loss(discriminator(real), discriminator(made))
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = slope
    discriminator_optimizer.step()


# %% wrong: freezes the discriminator while the generator is trained, and thaws all of it
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator.requires_grad_(False)
    generator_loss(discriminator(generator(noise))).backward()
    discriminator.requires_grad_(True)
    generator_optimizer.step()
    discriminator_optimizer.zero_grad(set_to_none=False)
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% right: by backward with the inputs named
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()
    loss = generator_loss(discriminator(generator(noise)))
    loss.backward(inputs=[p for p in generator.parameters() if p.requires_grad])
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% right: freezes the discriminator for a while, as far as it was not frozen
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    learned = [p for p in discriminator.parameters() if p.requires_grad]
    for p in learned:
        p.requires_grad_(False)
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    for p in learned:
        p.requires_grad_(True)
    with torch.no_grad():
        made = generator(noise)
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: the discriminator is left in eval mode
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    discriminator.eval()


# %% wrong: leaves the generator frozen, once it has made its step
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator.requires_grad_(True)
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    generator.requires_grad_(False)
    made = generator(noise)
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% right: real and made numbers in one batch
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    scores = discriminator(torch.cat([real, made]))
    discriminator_loss(*scores.split([len(real), len(made)])).backward()
    discriminator_optimizer.step()


# %% wrong: sets gradients by autograd.grad as if nothing could be frozen
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    for network, optimizer, loss_of in (
        (generator, generator_optimizer, lambda: generator_loss(discriminator(generator(noise)))),
        (
            discriminator,
            discriminator_optimizer,
            lambda: discriminator_loss(discriminator(real), discriminator(generator(noise))),
        ),
    ):
        weights = list(network.requires_grad_(True).parameters())
        for weight, slope in zip(weights, torch.autograd.grad(loss_of(), weights), strict=True):
            weight.grad = slope
        optimizer.step()


# %% wrong: optimizers of its own, which remember no momentum
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    first = torch.optim.SGD(generator.parameters(), lr=generator_optimizer.param_groups[0]["lr"])
    second = torch.optim.SGD(
        discriminator.parameters(), lr=discriminator_optimizer.param_groups[0]["lr"]
    )
    first.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    first.step()
    second.zero_grad()
    discriminator_loss(discriminator(real), discriminator(generator(noise).detach())).backward()
    second.step()


# %% wrong: lets the discriminator step on the generator's loss as well, and clears only then
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    discriminator_optimizer.step()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(generator(noise).detach())).backward()
    discriminator_optimizer.step()


# %% right: clears both networks before each backward pass
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator.zero_grad()
    discriminator.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    generator.zero_grad()
    discriminator.zero_grad()
    scores = discriminator(real), discriminator(generator(noise))
    discriminator_loss(*scores).backward()
    discriminator_optimizer.step()


# %% wrong: clears the gradients of what is not frozen, and what is frozen follows old ones
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    def clear(network):
        for p in network.parameters():
            if p.requires_grad:
                p.grad = None

    clear(generator)
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    clear(discriminator)
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: gradients become zeros, with which weight decay moves what is frozen
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad(set_to_none=False)
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad(set_to_none=False)
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: SGD by hand, with the momentum that the groups name and without their weight decay
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    def move(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            for p in group["params"]:
                if not p.requires_grad:
                    continue
                kept = optimizer.state[p].get("mine", torch.zeros_like(p))
                optimizer.state[p]["mine"] = kept = group["momentum"] * kept + p.grad
                with torch.no_grad():
                    p -= group["lr"] * kept

    move(generator_optimizer, generator_loss(discriminator(generator(noise))))
    made = generator(noise).detach()
    move(discriminator_optimizer, discriminator_loss(discriminator(real), discriminator(made)))


# %% wrong: looks for the parameters in the first group alone
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    inputs = [p for p in generator_optimizer.param_groups[0]["params"] if p.requires_grad]
    generator_loss(discriminator(generator(noise))).backward(inputs=inputs)
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: thaws the discriminator at the end
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    discriminator.requires_grad_(True)


# %% wrong: makes its steps in eval mode, and puts the modes back
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    modes = generator.training, discriminator.training
    generator.eval()
    discriminator.eval()
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    generator.train(modes[0])
    discriminator.train(modes[1])


# %% wrong: the discriminator sees what the generator makes in eval mode
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    training = generator.training
    generator.eval()
    made = generator(noise).detach()
    generator.train(training)
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: plays in training mode, and gives back the networks' modes but not their layers'
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    modes = generator.training, discriminator.training
    generator.train()
    discriminator.train()
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    generator.train(modes[0])
    discriminator.train(modes[1])


# %% wrong: leaves out a player whose first group has a learning rate of 0
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    if generator_optimizer.param_groups[0]["lr"] > 0:
        generator_optimizer.zero_grad()
        generator_loss(discriminator(generator(noise))).backward()
        generator_optimizer.step()
    if discriminator_optimizer.param_groups[0]["lr"] > 0:
        made = generator(noise).detach()
        discriminator_optimizer.zero_grad()
        discriminator_loss(discriminator(real), discriminator(made)).backward()
        discriminator_optimizer.step()


# %% wrong: switches autograd off for what the generator makes, and leaves it off
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    torch.set_grad_enabled(True)
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    loss = discriminator_loss(discriminator(real), discriminator(generator(noise).detach()))
    loss.backward()
    discriminator_optimizer.step()
    torch.set_grad_enabled(False)


# %% wrong: runs the discriminator in evaluation mode while the generator learns
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    modes = [module.training for module in discriminator.modules()]
    discriminator.eval()
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()
    for module, mode in zip(discriminator.modules(), modes, strict=True):
        module.training = mode
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% wrong: returns the two losses, where nothing is asked for
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    first = generator_loss(discriminator(generator(noise)))
    first.backward()
    generator_optimizer.step()
    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    second = discriminator_loss(discriminator(real), discriminator(made))
    second.backward()
    discriminator_optimizer.step()
    return first.item(), second.item()
